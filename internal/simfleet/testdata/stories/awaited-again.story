# A pre-approval is taken back and given again, and then the leader reads its whole log anew: on the way through it the
# first one is gone, as somebody wanted.
seed 6
machines 3
segments 2
span 10m0s
0s boot m00
0s boot m01
1m0s await m00 m01
2m0s forget m00 m01
3m0s await m00 m01
4m0s crash m00
5m0s boot m00
