"""The bank: accounts that pass coins on while processes, servers and whole tails of the server's file are lost.

Everything that is checked is in the accounts' own State, which leaves with the commits: so money that is missing, a
number that comes twice or too early, or a coin that was sent and never arrived is an effect of half a commit.
"""
