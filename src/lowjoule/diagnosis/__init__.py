"""What is here, what it can do, and what keeps this machine from measuring or controlling."""
