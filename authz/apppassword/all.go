package apppassword

import (
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// maxLooked is the number of app passwords that are looked at for one page of a list: most of them work.
const maxLooked = 500

// Owned is an app password with its person.
type Owned struct {
	authn.AppPassword

	Person string
}

// All returns the app passwords of everybody that work now, person by person, past after. next is where the list goes
// on, "" at its end.
func (p *Passwords) All(tx storage.Tx, after string, limit int, now time.Time) (out []Owned, next string, err error) {
	r := storage.Range{Limit: maxLooked}
	if person, id, ok := strings.Cut(after, "."); ok {
		r.After = []byte(storage.Key(person, id))
	}
	of := map[string][]authn.AppPassword{} // by person
	looked := 0
	for e, err := range ofPerson.Scan(tx, r) {
		if err != nil {
			return nil, "", err
		}
		parts := storage.Parts(e.Key)
		person, id := parts[0], parts[1]
		next = person + "." + id
		looked++
		if _, known := of[person]; !known {
			if of[person], err = p.List(tx, person, now); err != nil {
				return nil, "", err
			}
		}
		for _, one := range of[person] {
			if one.ID == id {
				out = append(out, Owned{one, person})
			}
		}
		if len(out) == limit {
			return out, next, nil
		}
	}
	if looked < maxLooked {
		next = ""
	}
	return out, next, nil
}
