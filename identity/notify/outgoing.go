package notify

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/storage"
)

// How long a message that was given up can still be looked at and sent again. Codes of text messages and prompts are
// not good for long.
const (
	mailKept  = 7 * 24 * time.Hour
	shortKept = 24 * time.Hour
)

// Item is a message that was not handed over: to whom it goes and how that went, and not what it says. Codes, links and
// other words of a message are not in it.
type Item struct {
	Channel string // mail, sms or push
	Key     string // where it is now. Each try moves it
	Kind    Kind   // empty: a prompt, or one that cannot be read
	// To is the address or number, PersonID whose it is. Either can be empty.
	To, PersonID string
	Since        time.Time
	// Next is the time of the next try, or the time when it was given up.
	Next    time.Time
	Tries   int
	Problem string // of the last try
	Trying  bool   // at this moment
	GivenUp bool
	// Late says that it would be of no use any more: what it is about has ended.
	Late bool
}

// Outgoing are the messages of one channel that are not handed over. Mail, Texts and Pushes implement it.
type Outgoing interface {
	// Channel is mail, sms or push.
	Channel() string
	// Waiting returns how many items wait, counting no more than most.
	Waiting(ctx context.Context, most int) (int, error)
	// List returns what waits, the soonest due first, or what was given up, the newest first: at most so many after a
	// key. Empty: from the beginning.
	List(tx storage.Tx, givenUp bool, behind string, most int, now time.Time) (list []Item, more bool, err error)
	// Find returns an item by its key. found is false for one that was tried or dropped meanwhile.
	Find(tx storage.Tx, key string, now time.Time) (i Item, found bool, err error)
	// Moved returns an item by a key that it had before it was tried or given up. found is false for one that was sent
	// or dropped meanwhile, or that thousands are due before.
	Moved(tx storage.Tx, key string, now time.Time) (i Item, found bool, err error)
	// Again makes an item due now. It reports whether there is one.
	Again(tx storage.Tx, key string, now time.Time) (bool, error)
	// Drop deletes an item. It reports whether there was one.
	Drop(tx storage.Tx, key string, now time.Time) (bool, error)
}

// outline are the data of a message without its words.
type outline struct {
	kind         Kind
	to, personID string
	until        time.Time
	secrets      []string // words that are in no error
}

func (n Notice) outline() outline {
	return outline{n.Kind, n.To, n.PersonID, n.Until, secretsOf(n.Link, n.Data)}
}

func (m SMS) outline() outline {
	return outline{m.Kind, m.To, m.PersonID, m.Until, secretsOf("", m.Data)}
}

func (p Push) outline() outline {
	return outline{"", "", p.PersonID, p.Until, secretsOf(p.Link, p.Data)}
}

// shortest is the minimum length of a word that is taken out of an error: codes have more characters.
const shortest = 4

// secretsOf are the values of a message, the parts of its link among them, the longest first.
func secretsOf(link string, data map[string]string) []string {
	out := append(slices.Collect(maps.Values(data)), link)
	if u, err := url.Parse(link); err == nil {
		for _, values := range u.Query() {
			out = append(out, values...)
		}
	}
	out = slices.DeleteFunc(out, func(s string) bool { return len(s) < shortest })
	slices.SortFunc(out, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return out
}

// hide takes words out of a text, and makes it one line.
func hide(text string, words []string) string {
	for _, w := range words {
		text = strings.ReplaceAll(text, w, "…")
	}
	return audit.Clean(text)
}

// hiddenError is an error without the words of its message.
type hiddenError struct {
	error

	text string
}

// Error implements error.
func (e *hiddenError) Error() string { return e.text }

// Unwrap returns the error with its words.
func (e *hiddenError) Unwrap() error { return e.error }

// Channel implements Outgoing.
func (q *sealedQueue[T]) Channel() string { return q.lane }

// List implements Outgoing.
func (q *sealedQueue[T]) List(tx storage.Tx, givenUp bool, behind string, most int, now time.Time) (list []Item, more bool, err error) {
	held, more, err := q.queue.List(tx, givenUp, behind, most, now)
	for i := range held {
		list = append(list, q.item(&held[i], now))
	}
	return list, more, err
}

// Find implements Outgoing.
func (q *sealedQueue[T]) Find(tx storage.Tx, key string, now time.Time) (Item, bool, error) {
	held, found, err := q.queue.Find(tx, key, now)
	if err != nil || !found {
		return Item{}, false, err
	}
	return q.item(&held, now), true, nil
}

// Moved implements Outgoing.
func (q *sealedQueue[T]) Moved(tx storage.Tx, key string, now time.Time) (Item, bool, error) {
	held, found, err := q.queue.Moved(tx, key, now)
	if err != nil || !found {
		return Item{}, false, err
	}
	return q.item(&held, now), true, nil
}

// Again implements Outgoing.
func (q *sealedQueue[T]) Again(tx storage.Tx, key string, now time.Time) (bool, error) {
	return q.queue.Again(tx, key, now)
}

// Drop implements Outgoing.
func (q *sealedQueue[T]) Drop(tx storage.Tx, key string, now time.Time) (bool, error) {
	return q.queue.Drop(tx, key, now)
}

// item is a stored item. One that cannot be opened, such as with another key, is shown without a kind.
func (q *sealedQueue[T]) item(h *outbox.Held[[]byte], now time.Time) Item {
	out := Item{
		Channel: q.lane, Key: h.Key, Since: h.AddedAt, Next: h.Due, Tries: h.Tries, Problem: h.Problem,
		Trying: h.Trying, GivenUp: h.GivenUp,
	}
	if v, err := q.open(h.Value); err == nil {
		o := v.outline()
		out.Kind, out.To, out.PersonID, out.Late = o.kind, o.to, o.personID, !o.until.IsZero() && !now.Before(o.until)
	}
	return out
}
