package personindex

import (
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

// The sources of a text, by their places. The words of names follow.
const (
	atIDs = iota
	atUsernames
	atMails
	atMembers // of the group, compared with the text
	atWords
)

// sources returns the indexes that a query goes through, one after the other. What they do not say, selects does. at is
// the source in which a list goes on, -1 for one that begins.
func (s *search) sources(at int) ([]source, error) {
	switch {
	case s.Text != "":
		return s.textSources(at)
	case s.Recent, s.State == "" && s.Group == "" && (!s.SeenSince.IsZero() || !s.SeenBefore.IsZero() && s.built):
		return []source{{next: s.recent}}, nil
	case s.Group != "":
		return []source{{next: s.members, members: true, known: s.State != ""}}, nil
	case s.State == person.Removed, s.State != "" && s.State != person.Active && s.built:
		return []source{{next: s.inState}}, nil
	}
	return []source{{next: s.everybody}}, nil
}

// everybody yields all persons, by username.
func (s *search) everybody(after string, limit int) ([]candidate, error) {
	return s.usernames("", after, limit)
}

// textSources go from what names one person to what names many. A person that two of them yield comes with the first.
// Of the words, that is gone through which fewest persons have, by a bounded look at each, and the members of a small
// group in place of all. A list that has begun stays with what it goes through.
func (s *search) textSources(at int) ([]source, error) {
	out := make([]source, atWords+len(s.words))
	if at >= len(out) {
		return out, nil
	}
	id := strings.ToLower(s.Text)
	byID := len(id) >= leastID && strings.Trim(id, "0123456789abcdef-") == ""
	isID := func(c candidate) bool { return byID && strings.HasPrefix(c.id, id) }
	before := func(c candidate, r *person.Record) bool { return isID(c) || s.startsUsername(r) || s.startsMail(r) }
	if at < 0 && s.small {
		at = atMembers
	}
	if at == atMembers {
		out[atMembers] = source{next: s.members, members: true, other: func(c candidate, r *person.Record) bool {
			return !before(c, r) && (len(s.words) == 0 || !named(wordsOf(r), s.words))
		}}
		return out, nil
	}
	if byID {
		out[atIDs] = source{next: func(after string, limit int) ([]candidate, error) { return s.ids(id, after, limit) }}
	}
	if s.folded != "" {
		out[atUsernames] = source{
			next:  func(after string, limit int) ([]candidate, error) { return s.usernames(s.folded, after, limit) },
			other: func(c candidate, _ *person.Record) bool { return isID(c) },
		}
	}
	out[atMails] = source{next: s.mails, other: func(c candidate, r *person.Record) bool {
		return isID(c) || s.startsUsername(r) || c.value != person.FoldEmail(r.Email) && s.startsMail(r)
	}}
	if len(s.words) == 0 {
		return out, nil
	}
	if !s.built { // nothing is listed by name yet, but everybody by username
		out[atWords] = source{
			next:  s.everybody,
			other: func(c candidate, r *person.Record) bool { return before(c, r) || !named(wordsOf(r), s.words) },
		}
		return out, nil
	}
	n := at - atWords
	if n < 0 {
		var err error
		if n, err = s.rarest(); err != nil {
			return nil, err
		}
	}
	word := s.words[n]
	out[atWords+n] = source{
		next:  func(after string, limit int) ([]candidate, error) { return s.names(word, after, limit) },
		known: true,
		other: func(c candidate, r *person.Record) bool {
			have := wordsOf(r)
			first := slices.IndexFunc(have, func(w string) bool { return strings.HasPrefix(w, word) })
			return first < 0 || have[first] != c.value || before(c, r) || !named(have, s.words)
		},
	}
	return out, nil
}

// rarest returns which of the words fewest persons have: the first that few have, or else the longest.
func (s *search) rarest() (best int, err error) {
	fewest := probed
	for i, w := range s.words {
		if len(w) > len(s.words[best]) && fewest == probed {
			best = i
		}
		if len(s.words) == 1 {
			break
		}
		list, err := s.names(w, "", fewest)
		if err != nil {
			return 0, err
		}
		if len(list) < fewest {
			best, fewest = i, len(list)
		}
	}
	return best, nil
}

// usernames yields persons by username.
func (s *search) usernames(prefix, after string, limit int) (out []candidate, err error) {
	if after == "" && prefix != "" {
		after = justBefore(prefix)
	}
	err = s.persons.PersonIDs(s.tx, s.Partition, after, false, func(folded, id string) (bool, error) {
		if !strings.HasPrefix(folded, prefix) {
			return false, nil
		}
		out = append(out, candidate{id: id, at: folded, value: folded})
		return len(out) < limit, nil
	})
	return out, err
}

// justBefore returns a text that sorts before all that begin with prefix, and behind all other text before them: no
// text has the byte 0xff.
func justBefore(prefix string) string {
	end := len(prefix) - 1
	return prefix[:end] + string([]byte{prefix[end] - 1, 0xff})
}

// ids yields persons by id.
func (s *search) ids(prefix, after string, limit int) (out []candidate, err error) {
	r := storage.Range{Prefix: person.Records.Key(prefix), Limit: limit}
	if after != "" {
		r.After = person.Records.Key(after)
	}
	for rec, err := range s.tx.Scan(r) {
		if err != nil {
			return nil, err
		}
		id := string(rec.Key[len(person.Records.Key("")):])
		out = append(out, candidate{id: id, at: id})
	}
	return out, nil
}

// mails yields persons by e-mail address. One with several that fit, of which none is the primary one, comes with each.
func (s *search) mails(after string, limit int) ([]candidate, error) {
	r := storage.Range{Prefix: []byte(storage.Key(s.Partition, s.mail)), Limit: limit}
	return s.scan(person.EmailIndex, r, after, 1)
}

// names yields persons by the words of their names.
func (s *search) names(word, after string, limit int) ([]candidate, error) {
	return s.scan(places, storage.Range{Prefix: []byte(storage.Key(byName, s.Partition, word)), Limit: limit}, after, 2)
}

// inState yields persons by their state.
func (s *search) inState(after string, limit int) ([]candidate, error) {
	return s.scan(places, storage.Range{Prefix: storage.Prefix(byState, s.Partition, string(s.State)), Limit: limit}, after, 2)
}

// scan reads an index whose keys have the value at a place, and the person at their end.
func (s *search) scan(table storage.Table[struct{}], r storage.Range, after string, value int) (out []candidate, err error) {
	if after != "" {
		r.After = []byte(after)
	}
	for e, err := range table.Scan(s.tx, r) {
		if err != nil {
			return nil, err
		}
		parts := storage.Parts(e.Key)
		out = append(out, candidate{id: parts[len(parts)-1], at: e.Key, value: parts[value]})
	}
	return out, nil
}

// recent yields persons by their last sign-in, the latest first.
func (s *search) recent(after string, limit int) (out []candidate, err error) {
	prefix := storage.Prefix(bySeen, s.Partition)
	r := storage.Range{Prefix: prefix, Descending: true, Limit: limit}
	switch {
	case after != "":
		r.After = []byte(after)
	case !s.SeenBefore.IsZero():
		r.After = []byte(seenKey(s.Partition, s.SeenBefore))
	}
	for e, err := range places.Scan(s.tx, r) {
		if err != nil {
			return nil, err
		}
		rest := e.Key[len(prefix):]
		if !s.SeenSince.IsZero() && timeOf(rest).Before(s.SeenSince) {
			break
		}
		out = append(out, candidate{id: rest[stampLong:], at: e.Key})
	}
	return out, nil
}

// members yields the persons of a group.
func (s *search) members(after string, limit int) (out []candidate, err error) {
	ids, err := s.persons.Members(s.tx, s.Group, after, limit)
	for _, id := range ids {
		out = append(out, candidate{id: id, at: id})
	}
	return out, err
}
