"""The loop of a worker: its consumer takes turns at the server and has the deliveries handled that they bring.

| module | about |
|---|---|
| consumer | the loop: join, wait for a reason, take a turn, until drained, leave |
| intake | how much the worker takes, and when |
| bell | how an idle worker learns that there is work |
| runners | the tasks that run handlers |
| places | how many handlers may run at once |
| portion | how much of what is finished one turn carries |
| mailbox | the deliveries that the worker holds |
| recovery | what happens when a turn failed, or the lease is lost |
| interfaces | the lane and the handler that a consumer is given, and what passes between them |
"""
