"""`incumbent demo`: three real processes, one election, and what happens when leaders go.

One module per part: `warden` (nobody is left behind), `server`, `candidate` (what each process
runs) and `reports` (what it says), `node` (the demo's hold on one process), `stage` and `script`
(who does what when), `screen` and `summary` (what one sees), `verdict` (whether it was right).
"""
