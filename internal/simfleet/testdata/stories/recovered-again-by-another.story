# A fleet is recovered and admits a machine; both are lost, and another member, which held to the state of before, recovers it
# under the same number. What the first recovery promised went with it.
seed 1049
machines 5
segments 1
span 1h0m0s
269ms boot m03
297ms boot m02
532ms boot m01
834ms boot m00
31.975s await m02 #3
1m2.838s approve m03 #0
3m12.494s promote m00 #1
4m0.596s approve m03 #3
16m45.819s destroy m03
18m28.508s recover m01
22m12.934s boot m04
24m45.24s approve m01 #4
25m13.504s destroy m01
39m20.478s destroy m04
