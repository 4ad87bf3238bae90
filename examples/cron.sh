#!/bin/sh
# A nightly report on one of several hosts: each has the same line in its crontab.
#
#   0 3 * * *  INCUMBENT_URL=redis://redis.internal:6379 /opt/app/cron.sh
#
# Needs `pip install 'incumbent[cli,cron]'`. The script starts itself once more, as the work.
set -eu

if [ "${1:-}" != work ]; then
    # --once-per, because a report that is done in a second has given its seat back when the
    # clock of the next host comes to 3:00. It has the times of the line, in UTC; if the hosts'
    # clocks go by another zone, add it: --tz Europe/Berlin.
    # --wait, because two hosts may come at the same moment: the second learns that it has run.
    exec incumbent run nightly-report --once-per '0 3 * * *' --wait 1m -- "$0" work
fi

# Only one host comes here. The fence grows with each leader: a storage that refuses a smaller
# one than it has seen is safe from a host that was frozen and wakes up too late.
echo "report, under fence $INCUMBENT_FENCE, by $INCUMBENT_LEADER_ID"
