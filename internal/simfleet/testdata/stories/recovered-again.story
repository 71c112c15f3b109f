# A fleet is recovered; all who hold that go to other fleets; a learner that was off all the time recovers it again, under the same
# number. What the first recovery held and who led it is not compared with the second.
seed 316
machines 27
segments 4
span 1h0m0s
300ms boot m00
1.077s boot m02
1.352s boot m04
1.532s boot m03
1.995s boot m01
17.772s disk-free m23
34.668s boot m26
54.541s stop m10
1m14.105s promote m13 #13
1m25.578s boot m11
1m26.144s leave-alone m00
1m42.005s reprovision m00 #9
1m55.164s boot m21
2m19.246s stop m23
2m42.926s drop m13 #22
2m56.491s boot m08
3m7.164s recover m10
3m28.42s boot m12
3m31.78s window m12 9m17s
3m47.125s forget m24 #9
4m9.253s window m22 8m47s
4m23.011s heal m07
4m39.231s heal m02
4m59.626s boot m07
5m16.217s leave-alone m11
5m30.797s stop m13
5m45.515s boot m21
5m53.847s boot m18
6m13.322s drop m19 #13
6m35.187s window-off m23
6m42.253s disk-free m19
7m2.88s boot m10
7m21.536s stop m07
7m39.044s leave-alone m01
7m54.406s window m04 15m41s
8m9.116s boot m05
8m23.526s disk-free m22
8m25.461s boot m16
8m32.081s disk-free m01
8m47.756s boot m10
8m49.501s window m24 11m14s
9m10.904s demote m15 #24
9m31.59s boot m11
9m31.919s window m16 8m33s
9m33.946s boot m03
9m58.392s stop m07
10m1.508s stop m14
10m13.981s heal m07
10m35.771s drop m08 #17
10m48.138s boot m22
10m49.815s boot m21
11m12.648s boot m16
11m17.607s seat m05 #26
11m31.132s boot m18
11m40.583s promote m08 #3
11m48.888s window m09 11m6s
11m52.993s leave-alone m09
12m0.924s boot m15
12m9.491s stop m22
12m24.077s disk-free m06
12m35.342s give-up m07
12m52.426s forget m12 #26
13m2.477s promote m26 #26
13m24.039s disk-free m19
13m30.465s boot m09
13m31.773s recover m13
13m35.302s boot m24
13m52.249s leave-alone m24
13m57.02s recover m07
13m57.265s boot m24
13m58.338s window m12 18m27s
14m18.414s boot m20
14m31.942s boot m00
14m42.13s boot m12
14m52.143s window-off m26
15m11.948s leave-alone m06
15m19.314s demote m05 #14
15m31.489s boot m17
15m32.038s boot m13
15m33.887s disk-free m00
15m54.843s boot m00
16m10.753s boot m13
16m15.516s promote m24 #8
16m32.428s boot m06
16m55.365s boot m11
16m57.567s window m15 17m57s
17m9.645s boot m03
17m32.327s disk-free m03
17m47.806s drop m20 #24
18m4.396s recover m03
18m12.117s reprovision m07 #26
18m21.495s promote m09 #3
18m21.968s boot m26
18m29.809s disk-free m20
18m35.608s heal m06
18m38.445s boot m18
18m42.234s boot m09
18m46.887s boot m13
18m54.822s recover m13
19m1.237s boot m05
19m14.633s promote m19 #3
19m33.475s recover m22
19m46.06s disk-free m03
20m3.49s stop m12
20m7.166s boot m23
20m25.475s reprovision m14 #0
20m36.825s promote m12 #21
20m53.682s stop m19
21m10.684s boot m13
21m15.665s boot m19
21m17.275s boot m12
21m30.082s heal m03
21m31.091s boot m20
21m39.858s boot m07
21m40.55s boot m10
21m59.278s boot m01
22m6.236s heal m00
22m13.772s recover m12
22m22.736s boot m06
22m28.508s window m00 1m48s
22m38.424s disk-free m16
22m52.945s boot m10
22m56.672s stop m01
23m10.278s heal m02
23m13.036s forget m10 #23
23m19.629s cut m10 m02 m03 m04 m08 m16 m24 m26
23m22.011s drop m17 #6
23m39.152s disk-free m20
23m43.973s boot m10
23m52.959s seat m01 #7
23m54.655s stop m14
24m9.77s forget m22 #17
24m16.696s seat m04 #25
24m22.006s boot m06
24m41.996s stop m07
24m45.903s boot m19
24m50.377s promote m11 #20
25m13.194s reprovision m09 #13
25m31.231s cut m16 m00 m01 m03 m04 m05 m06 m07 m08 m09 m10 m11 m12 m13 m17 m18 m20 m22 m25 m26
25m39.807s disk-free m08
25m46.099s boot m22
25m58.807s heal m24
26m13.294s heal m05
26m24.472s recover m19
26m33.77s promote m06 #11
26m34.375s boot m21
26m53.088s disk-full m12
27m17.676s stop m18
27m29.446s heal m09
27m44.001s boot m25
27m49.758s boot m02
27m55.201s recover m01
28m6.426s window-off m09
28m8.481s forget m13 #17
28m10.008s window m13 8m39s
28m25.693s disk-free m01
28m26.569s leave-alone m17
28m38.62s heal m01
28m56.821s promote m12 #22
29m20.961s recover m06
29m29.15s heal m01
29m31.116s boot m14
29m36.591s seat m26 #12
29m53.999s reprovision m02 #18
29m59.144s boot m07
30m13.799s window m16 4m23s
30m25.365s recover m09
30m28.144s promote m08 #22
30m35.1s leave m06
30m53.701s leave-alone m22
30m59.783s boot m02
31m11.89s heal m26
31m15.187s leave-alone m12
31m37.006s heal m16
31m59.034s reprovision m04 #19
32m6.095s boot m15
32m23.884s window-off m10
32m29.237s seat m25 #13
32m35.89s disk-free m12
32m51.007s boot m01
33m8.098s disk-free m06
33m18.12s seat m02 #6
33m27.143s cut m05 m02 m08 m16 m18
33m41.688s boot m15
33m43.958s heal m10
33m44.324s disk-free m07
34m2.192s boot m16
34m13.256s boot m22
34m21.695s reprovision m26 #8
34m42.706s promote m10 #8
35m5.813s promote m10 #11
35m6.175s heal m21
35m15.674s heal m18
35m34.963s demote m09 #23
35m42.84s forget m00 #26
36m6.665s boot m05
36m14.638s reprovision m19 #8
36m27.823s heal m11
36m44.178s stop m25
37m5.992s boot m13
37m27.194s recover m15
37m29.603s forget m10 #9
37m41.62s seat m12 #1
37m56.095s drop m17 #3
38m13.266s promote m08 #18
38m32.12s boot m09
38m37.67s disk-free m19
38m49.327s disk-free m17
38m52.955s reprovision m08 #26
39m4.407s drop m12 #17
39m16.098s forget m26 #15
39m38.561s boot m15
39m53.204s forget m16 #9
39m54.967s boot m12
40m4.046s recover m09
40m27.633s window-off m21
40m43.49s window m04 17m29s
40m49.857s boot m06
41m1.504s window m16 15m10s
41m4.032s promote m11 #0
41m5.332s window m24 4m53s
41m21.897s boot m00
41m26.052s boot m23
41m38.645s recover m18
41m58.82s heal m20
42m6.506s leave m19
42m16.16s forget m26 #19
42m25.077s heal m18
42m47.318s heal m16
43m8.963s cut m04 m01 m06 m13 m16 m22
43m27.147s promote m05 #20
43m44.192s leave-alone m12
43m47.619s stop m22
43m54.706s boot m13
43m58.084s boot m21
44m0.001s leave-alone m13
44m13.027s disk-full m00
44m21.106s window m22 5m21s
44m37.768s boot m20
44m44.899s heal m04
44m55.209s recover m20
44m56.582s heal m13
45m10.814s disk-free m24
45m28.063s stop m03
45m50.481s heal m18
46m0.419s pause m13
46m4.525s boot m16
46m17.327s drop m18 #10
46m23.071s boot m13
46m39.731s boot m18
46m44.937s disk-free m02
47m0.205s boot m01
47m21.562s seat m13 #7
47m27.614s promote m06 #13
47m52.279s window m25 19m26s
48m2.015s boot m24
48m12.533s drop m21 #20
48m15.302s heal m25
48m35.798s forget m08 #23
48m41.741s disk-free m10
48m59.001s window m00 19m22s
49m13.137s boot m22
49m26.51s leave m26
49m42.787s give-up m10
49m54.611s boot m10
50m17.351s forget m12 #22
50m17.946s forget m00 #17
50m32.977s recover m10
50m49.02s reprovision m13 #5
51m13.416s boot m09
51m32.851s leave-alone m24
51m56.993s disk-free m12
52m6.935s leave-alone m10
52m30.487s promote m15 #20
52m47.549s heal m03
53m3.747s boot m14
53m7.762s window-off m05
53m22.653s window m25 17m47s
53m37.41s boot m15
53m52.445s disk-free m16
54m9.686s heal m18
54m33.17s heal m20
54m38.321s recover m08
54m52.041s reprovision m21 #22
55m4.642s boot m15
55m6.716s boot m12
55m12.965s recover m10
55m29.513s reprovision m17 #15
55m44.293s seat m08 #15
55m57.853s disk-free m25
56m14.18s forget m04 #17
56m20.647s leave m09
56m20.889s drop m20 #14
56m31.662s boot m14
56m51.243s recover m05
56m54.809s boot m25
56m58.581s leave-alone m07
57m4.656s recover m21
57m6.272s window m21 9m18s
57m30.921s cut m15 m00 m01 m02 m03 m04 m05 m06 m07 m08 m09 m10 m12 m13 m14 m16 m18 m19 m20 m21 m22 m23 m24 m25 m26
57m41.138s boot m08
57m47.715s boot m26
58m5.35s leave-alone m15
58m14.382s promote m23 #15
58m27.771s window m18 11m26s
58m51.197s recover m00
59m3.454s boot m21
59m18.863s seat m19 #24
59m36.386s stop m08
59m44.842s demote m02 #25
59m50.37s disk-free m16
