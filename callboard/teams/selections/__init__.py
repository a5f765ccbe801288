"""The strategies that teams choose a speaker by, one in each file."""
