# A founder admits its first machine, loses its power, and comes back without a quorum: its record says that it is a voter of
# several, although two writes of it were under way in the same moment.
seed 58
machines 23
segments 4
span 1h0m0s
264ms boot m10
269ms boot m02
388ms boot m04
974ms boot m11
1.273s boot m08
1.46s boot m01
1.531s boot m05
1.649s boot m00
1.672s boot m06
1.888s boot m07
1.905s boot m09
8m41.965s approve m06 #14
9m50.454s boot m03
11m34.324s seat m09 #8
51m59.08s crash m06
53m12.249s leave-alone m09
