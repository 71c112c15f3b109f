# A machine is put off for some minutes by a leader whose clock is ahead, and then leads the fleet itself: it waited for as
# long as the clocks are apart, up to a week.
seed 574
machines 18
segments 3
span 1h0m0s
79ms boot m03
123ms boot m07
452ms boot m11
658ms boot m01
659ms boot m14
834ms boot m09
915ms boot m06
1.023s boot m05
1.474s boot m13
1.555s boot m04
1.566s boot m15
1.724s boot m16
1.812s boot m10
1.914s boot m00
1.918s boot m02
1.922s boot m12
1.969s boot m08
2m2.156s loss m00 20
2m27.727s await m08 #1
4m9.939s await m05 #4
7m42.143s approve m02 #2
18m46.246s promote m07 #17
19m31.963s boot m09
20m21.606s boot m17
21m6.843s window m04 3m45s
22m7.629s leave-alone m06
22m40.575s window-off m13
