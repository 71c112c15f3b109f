# A machine that leaves is killed after its fleet removed it and before its record says so. It follows nobody from then on, and asks
# the voters in turn.
seed 1127
machines 12
segments 3
span 1h0m0s
469ms boot m05
1.17s boot m06
1.23s boot m00
2m12.057s boot m11
9m8.641s approve m05 #0
14m27.895s trap m06 follow.before
14m54.117s cut m00 m01 m02 m04 m05 m06 m07 m08 m11
15m19.026s leave m06
