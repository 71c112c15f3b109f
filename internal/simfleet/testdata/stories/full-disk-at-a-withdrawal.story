# The disk of a leader is full in the moment in which it takes a promotion back that came to nothing: it takes it back when there
# is room again.
seed 94
machines 2
segments 1
span 40m0s
100ms boot m00
5s boot m01
1m0s approve m00 #0
2m0s leave-alone m00
2m30s promote m01 m00
12m20s disk-full m01
20m0s disk-free m01
