package admin

import (
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/sessionindex"
	"github.com/gatehouse-id/gatehouse/storage"
)

// SessionFilter selects sessions. Zero members select all.
type SessionFilter struct {
	Address     string // IP address that it was last used from
	Application string // client id: it has been given tokens in the session
	Site        string // origin of a protected site that the person has entered in the session
	Device      string // as sessionindex.DeviceOf names it
	// Dormant adds to the sessions of a place those that do not count now, and would count again, as when their provider
	// is enabled. Who ends sessions wants them.
	Dormant bool
}

// maxLooked bounds the sessions that one part of a list looks at.
const maxLooked = 1000

// wanted is a place that a filter asks for.
type wanted struct {
	kind  sessionindex.Kind
	value string
}

func (f SessionFilter) wanted() []wanted {
	all := []wanted{
		{sessionindex.Address, f.Address},
		{sessionindex.Application, f.Application},
		{sessionindex.Site, f.Site},
		{sessionindex.Device, f.Device},
	}
	return slices.DeleteFunc(all, func(w wanted) bool { return w.value == "" })
}

// Sessions returns at most limit live sessions that a filter selects, after one of them, and what continues the list.
// There can be fewer, or none, although the list goes on.
func (s *Service) Sessions(tx storage.Tx, f SessionFilter, after string, limit int, now time.Time) (list []SessionInfo,
	next string, err error,
) {
	found, next, err := s.selected(tx, f, after, limit, maxLooked, now)
	if err != nil {
		return nil, "", err
	}
	var ids []string
	for _, o := range found {
		ids = append(ids, o.Record.PersonID)
	}
	names, err := s.Names(tx, ids)
	for _, o := range found {
		list = append(list, s.sessionInfo(o, names[o.Record.PersonID]))
	}
	return list, next, err
}

// CountSessions returns how many live sessions a filter selects, up to most. more: there are more, or there was too
// much to look at.
func (s *Service) CountSessions(tx storage.Tx, f SessionFilter, most int, now time.Time) (n int, more bool, err error) {
	found, next, err := s.selected(tx, f, "", most+1, 2*most, now)
	if err != nil {
		return 0, false, err
	}
	return min(len(found), most), next != "", nil
}

// selected returns at most limit live sessions that a filter selects, after one of them, and what continues them. It
// looks at no more than about looked sessions, so there can be fewer although there are more.
func (s *Service) selected(tx storage.Tx, f SessionFilter, after string, limit, looked int, now time.Time) (found []session.Session,
	next string, err error,
) {
	all := f.wanted()
	for read := 0; len(found) < limit && read < looked; {
		some, n, last, err := s.sessionsBehind(tx, all, f.Dormant, after, now)
		if err != nil {
			return nil, "", err
		}
		read += n
		for _, o := range some {
			ok, err := selects(tx, all, f, &o)
			if err != nil {
				return nil, "", err
			}
			if ok {
				found = append(found, o)
			}
			if len(found) == limit {
				last = o.ID
				break
			}
		}
		if after, next = last, last; last == "" {
			break
		}
	}
	return found, next, nil
}

// sessionsPart is the number of sessions that are looked at at once.
const sessionsPart = 100

// sessionsBehind returns some sessions of the shortest list to read, or of all where no place is asked for. last
// is the one that was looked at last, empty at the end.
func (s *Service) sessionsBehind(tx storage.Tx, all []wanted, dormant bool, after string, now time.Time) (some []session.Session,
	read int, last string, err error,
) {
	if len(all) == 0 {
		some, last, err = s.Identity.Session.All(tx, after, sessionsPart, now)
		return some, sessionsPart, last, err
	}
	ids, err := sessionindex.Sessions(tx, all[0].kind, all[0].value, after, sessionsPart)
	if err != nil {
		return nil, 0, "", err
	}
	of := s.Identity.Session.ActiveOf
	if dormant {
		of = s.Identity.Session.UnendedOf
	}
	if some, err = of(tx, ids, now); err != nil {
		return nil, 0, "", err
	}
	if len(ids) == sessionsPart {
		last = ids[len(ids)-1]
	}
	return some, len(ids), last, nil
}

// selects reports whether a session is at all places of a filter.
func selects(tx storage.Tx, all []wanted, f SessionFilter, o *session.Session) (bool, error) {
	if f.Address != "" && o.Record.Address != f.Address || f.Device != "" && sessionindex.DeviceOf(o.Record.Agent) != f.Device {
		return false, nil
	}
	for _, w := range all {
		if w.kind == sessionindex.Address || w.kind == sessionindex.Device {
			continue
		}
		if there, err := sessionindex.Has(tx, w.kind, w.value, o.ID); err != nil || !there {
			return false, err
		}
	}
	return true, nil
}

// maxDevices bounds the kinds of devices that a list names.
const maxDevices = 200

// Devices returns the kinds of devices that have sessions.
func (s *Service) Devices(tx storage.Tx) ([]string, error) {
	return sessionindex.Values(tx, sessionindex.Device, maxDevices)
}
