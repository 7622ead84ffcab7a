"""The scenarios of failure, played on racks of real hosts: real sshd, real Ray, a program that resumes."""
