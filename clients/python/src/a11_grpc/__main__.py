"""`python -m a11_grpc`: see `a11_grpc.command`."""

from a11_grpc.command import main

if __name__ == "__main__":
    main()
