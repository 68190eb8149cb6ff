package forwardauth_test

import "testing"

// BenchmarkForwardAuth is a decision about a person with a session, from the question of a proxy to its answer.
func BenchmarkForwardAuth(b *testing.B) {
	i := newIssuer(b)
	g := i.gates()
	session := i.session(wiki, ann())
	for _, kind := range kinds {
		b.Run(kind, func(b *testing.B) {
			c := by(kind, "wiki", onWiki("/page?x=1", "Cookie", session))
			b.ReportAllocs()
			for b.Loop() {
				if res := c.do(g); res.StatusCode != 200 {
					b.Fatalf("status = %d", res.StatusCode)
				}
			}
		})
	}
}
