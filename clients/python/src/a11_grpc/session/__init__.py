"""The session: one connection to the service on which both sides call and both host.

`core` holds the rules, pure; `state`, `connection`, `keeper` drive it over gRPC.
"""
