package botauth

import (
	"container/heap"
	"crypto/sha256"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"
)

// How many signatures are remembered until they end. A robot that sends more within that time is a stranger with the
// next ones. Anyone can publish keys at any number of hosts below a domain, so all hosts of a registered domain have
// one share, and strangers cannot take that of robots that a rule names.
const (
	maxNamed     = 1 << 16 // of one registered domain, by robots that a rule names
	maxStranger  = 1 << 12 // of one registered domain, by others
	maxStrangers = 1 << 16 // of all others
)

// signer has a share of the signatures that are remembered.
type signer struct {
	domain string // registered
	named  bool   // by a rule
}

// spent is a signature that has been used.
type spent struct {
	id   [sha256.Size]byte
	ends time.Time
	by   signer
}

// once lets each signature be used once.
type once struct {
	mu        sync.Mutex // guards all below
	used      map[[sha256.Size]byte]bool
	ends      endings
	share     map[signer]int
	strangers int
}

// spend remembers a signature until its end. The base stands for it, since some algorithms sign one base in many ways.
func (o *once) spend(base string, by signer, ends, now time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget(now)
	id := sha256.Sum256([]byte(base))
	switch n := o.share[by]; {
	case o.used[id]:
		return errReplayed
	case by.named && n >= maxNamed, !by.named && (n >= maxStranger || o.strangers >= maxStrangers):
		return errFull
	}
	o.count(by, 1)
	o.used[id] = true
	heap.Push(&o.ends, spent{id, ends, by})
	return nil
}

// forget makes room of the signatures that have ended. mu is held.
func (o *once) forget(now time.Time) {
	for len(o.ends) > 0 && !o.ends[0].ends.After(now) {
		s := heap.Pop(&o.ends).(spent) //nolint:forcetypeassert // there is nothing else in it
		delete(o.used, s.id)
		o.count(s.by, -1)
	}
}

func (o *once) count(by signer, n int) {
	if o.share[by] += n; o.share[by] == 0 {
		delete(o.share, by)
	}
	if !by.named {
		o.strangers += n
	}
}

// endings is a heap of signatures, with the one that ends first on top.
type endings []spent

func (e endings) Len() int           { return len(e) }
func (e endings) Less(i, j int) bool { return e[i].ends.Before(e[j].ends) }
func (e endings) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(x any)        { *e = append(*e, x.(spent)) } //nolint:forcetypeassert // of spend
func (e *endings) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// registered returns the domain that someone has registered for a host. The customers of a company that gives away
// names below its own, such as github.io, count as one.
func registered(domain string) string {
	host := domain
	if name, _, err := net.SplitHostPort(domain); err == nil {
		host = name
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	host = strings.TrimSuffix(host, ".")
	suffix, official := publicsuffix.PublicSuffix(host)
	for !official && strings.Contains(suffix, ".") {
		_, above, _ := strings.Cut(suffix, ".")
		suffix, official = publicsuffix.PublicSuffix(above)
	}
	below, found := strings.CutSuffix(host, "."+suffix)
	if !found {
		return host
	}
	return below[strings.LastIndexByte(below, '.')+1:] + "." + suffix
}
