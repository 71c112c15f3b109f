package control

// pipeSDDL is who may open the administrators' pipe on Windows: SYSTEM and
// Administrators, and where the node runs as an ordinary user also that user
// (sid; "" for a service). The owner is the token's default, which the client
// checks.
func pipeSDDL(sid string) string {
	s := "D:P(A;;GA;;;SY)(A;;GA;;;BA)"
	if sid != "" {
		s += "(A;;GA;;;" + sid + ")"
	}
	return s
}
