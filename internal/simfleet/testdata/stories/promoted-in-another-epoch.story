# A learner recovers the fleet, and is told to promote the old voter, which is in the earlier epoch still: what that one says of its
# log is of another history, and it is given no vote.
seed 94
machines 8
segments 1
span 1h0m0s
1.177s boot m01
1.488s boot m00
1.516s boot m02
40.306s approve m00 #2
1m16.052s approve m00 #3
1m16.182s promote m01 #0
18m25.047s boot m06
18m37.218s leave-alone m00
25m54.317s recover m02
26m27.991s promote m06 #7
