"""The launcher: a small process between an executor and the code that it runs.

It runs as `python -I -S -c "..."` with this folder as a package of its own, so that it starts in milliseconds: hence
nothing but the standard library is imported, and everything by relative names. Three processes take part:

===========  =====================================================================================================
launcher     the executor's child: waits for the end, the timeout or the executor's word, then kills what is left
keeper       its child, the first process of the new namespaces: arranges the mounts, watches memory, disk and processes
program      its child: gives up its rights, sets its limits, and becomes the interpreter that runs the code
===========  =====================================================================================================
"""
