package identity

import "net/http"

// patterns is a router that only records patterns.
type patterns []string

func (p *patterns) Handle(pattern string, _ http.Handler) { *p = append(*p, pattern) }

func (p *patterns) HandleFunc(pattern string, _ func(http.ResponseWriter, *http.Request)) {
	*p = append(*p, pattern)
}

// Patterns returns every path that ServeHTTP answers, as addRoutes writes it.
func (s *Service) Patterns() []string {
	var p patterns
	s.addRoutes(&p)
	return p
}
