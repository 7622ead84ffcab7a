"""What keeps README and docs true: parts made of the program itself, pictures that are played again, and checks."""
