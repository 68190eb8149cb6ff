package modeltest

import (
	"reflect"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/recheck"
	"github.com/gatehouse-id/gatehouse/storage"
)

// sleeper is an open request as far as it can be told from here: what it was let in by, and how it is woken.
type sleeper struct {
	server *authz.Server
	in     *token.Introspection
	until  time.Time
	bell   chan struct{}
	watch  *storage.Watch
}

// Wake implements storage.Waker.
func (s *sleeper) Wake() {
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

func (m *model) observe(c credential) (*token.Introspection, recheck.Basis) {
	m.t.Helper()
	if c.session != "" {
		in, basis, err := m.server().ObserveSite(m.t.Context(), wiki, c.text)
		m.must(err)
		return in, basis
	}
	in, basis, err := m.server().Observe(m.t.Context(), c.text)
	m.must(err)
	return in, basis
}

// wakeSleepers waits for the wake of every open request whose answer is another one by now: without it the test never
// ends. Time and a reload, which no commit tells of, are the concern of others.
func (m *model) wakeSleepers() {
	m.t.Helper()
	held := map[string]*sleeper{}
	for _, c := range m.held {
		s := m.sleepers[c.text]
		if s != nil && !s.in.Active { // it was ended
			held[c.text] = s
			continue
		}
		in, basis := m.observe(c)
		if s != nil && s.server == m.server() && m.now.Before(s.until) {
			if reflect.DeepEqual(in, s.in) {
				held[c.text] = s
				continue
			}
			<-s.bell
			m.seen["woken"]++
		}
		s = &sleeper{server: m.server(), in: in, until: basis.Until, bell: make(chan struct{}, 1)}
		if s.watch = basis.Reading.Watch(s); s.watch == nil && in.Active {
			m.t.Errorf("an active credential cannot be watched")
		}
		held[c.text] = s
	}
	for text, s := range m.sleepers {
		if held[text] != s {
			s.watch.Stop()
		}
	}
	m.sleepers = held
}
