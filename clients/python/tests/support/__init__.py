"""What the tests share: a server, a proxy, the fixture actions."""
