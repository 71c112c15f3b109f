# A leader of two voters is demoted. The other one, which is to take it out of the log, loses its power and comes back on a full
# disk: it says "you are a learner" and cannot be elected. The demoted one keeps its vote for as long as that lasts.
seed 3
machines 2
segments 1
span 20m0s
100ms boot m00
5s boot m01
1m0s approve m00 #0
2m0s promote m00 #0
2m59s trap m01 committed
3m0s demote m00 m00
3m10s disk-full m01
3m11s boot m01
10m0s disk-free m01
