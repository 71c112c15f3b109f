# A voter whose clock shows another day is followed, and the leader's leases are judged: by the leader's clock.
seed 14
machines 21
segments 7
span 1h0m0s
1.453s boot m09
1.548s boot m05
1.573s boot m02
1.586s boot m10
1.884s boot m06
26m51.443s boot m20
27m57.607s approve m09 #17
28m15.91s boot m18
31m45.805s promote m02 #16
49m14.764s boot m16
49m53.162s forget m19 #12
50m37.212s approve m02 #3
50m47.677s promote m16 #16
52m2.157s boot m20
