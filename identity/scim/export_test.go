package scim

// SetMaxMembers bounds how many members one list of groups tells.
func (s *Server) SetMaxMembers(n int) { s.members = n }
