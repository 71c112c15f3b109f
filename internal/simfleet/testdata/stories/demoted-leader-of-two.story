# A leader of two voters is demoted. The other one needs its acknowledgement to lead at all, so it stays in the log until it is
# taken out of it.
seed 13
machines 4
segments 2
span 20m0s
833ms boot m00
836ms boot m02
869ms boot m01
1m55.368s approve m02 #1
2m14.589s promote m02 #1
2m25.691s approve m00 #1
4m32.079s demote m01 #2
