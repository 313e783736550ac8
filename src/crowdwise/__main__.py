"""`python -m crowdwise` is the command `crowdwise`."""

from crowdwise.cli import main

if __name__ == "__main__":
    main()
