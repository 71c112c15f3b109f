# As in no-leaders-word, and the demoted one has the longest log: nobody else can be elected, so the other one has to take what
# it sends although the roster says that it is a learner.
seed 56
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
