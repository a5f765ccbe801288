"""The door for front ends that speak AG-UI. It needs the extra `agui`."""
