package scim

// SetMaxMembers bounds how many members one list of groups tells.
func (s *Server) SetMaxMembers(n int) { s.members = n }

// NoScans lets requests that read through all persons wait for ever.
func (s *Server) NoScans() { s.scans = nil }
