"""Hosting: functions as actions that others call."""
