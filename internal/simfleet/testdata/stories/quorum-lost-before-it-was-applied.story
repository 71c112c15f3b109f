# One of two voters is lost for good, and the other one has not applied yet that there were two: its log knows.
seed 201
machines 6
segments 2
span 1h0m0s
2m52.513s boot m01
10m30.132s boot m04
27m6.553s window m04 9m41s
31m52.912s promote m01 #5
35m13.725s crash m04
46m34.942s crash m01
54m9.779s destroy m04
