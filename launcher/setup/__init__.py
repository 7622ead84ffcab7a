"""Operations: facts to the commands, files and settings that make a node ready. Pure."""
