package adminapi

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/caddymodule/explain"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/spelling"
	"github.com/gatehouse-id/gatehouse/storage"
)

// errUnknownItem says that what a request names does not exist.
var errUnknownItem = errors.New("unknown")

// unknownError names what was sought and not found, and the names that are close to it.
type unknownError struct {
	what, name string
	similar    []string
	cause      error
}

func (e *unknownError) Error() string {
	s := fmt.Sprintf("no %s %s", e.what, e.name)
	if len(e.similar) > 0 {
		s += "; did you mean " + strings.Join(e.similar, " or ") + "?"
	}
	return s
}

func (e *unknownError) Unwrap() error { return e.cause }

// Typed is the name of a person as commands take it.
func Typed(p person.Person) string { return admin.Typed(p) }

// maxSought bounds the names that are compared with one that was not found.
const maxSought = 10_000

// aboutPerson adds the name that was sought to an error of an unknown person.
func (i *Instance) aboutPerson(r contextual, name string, err error) error {
	if !errors.Is(err, person.ErrNoPerson) || name == "" {
		return err
	}
	var names []string
	for after := ""; len(names) < maxSought; {
		list, failed := i.Identity.Person.ListPersons(r.Context(), after, MaxPersons)
		if failed != nil {
			break
		}
		for _, p := range list {
			names = append(names, Typed(p))
		}
		if len(list) < MaxPersons {
			break
		}
		if after, failed = i.place(list[len(list)-1]); failed != nil {
			break
		}
	}
	return &unknownError{"person", name, closest(name, names), err}
}

// person returns the person that a request names by username or id. Its error suggests persons that it may have meant.
func (i *Instance) person(r contextual, name string) (person.Person, error) {
	p, err := i.Identity.Person.Person(r.Context(), name)
	return p, i.aboutPerson(r, name, err)
}

// aboutGroup adds the name that was sought to an error of an unknown group.
func (i *Instance) aboutGroup(r contextual, partition, name string, err error) error {
	if !errors.Is(err, person.ErrNoGroup) || name == "" {
		return err
	}
	var names []string
	_ = i.Store.View(r.Context(), func(tx storage.Tx) error { // without it there are no suggestions
		list, err := i.Identity.Person.Groups(tx, partition, "", maxSought)
		names = nil
		for _, g := range list {
			names = append(names, g.Name)
		}
		return err
	})
	return &unknownError{"group", name, closest(name, names), err}
}

// aboutClient adds the id that was sought to an error of an unknown client.
func (i *Instance) aboutClient(r contextual, id string, err error) error {
	if !errors.Is(err, clientstore.ErrUnknown) {
		return err
	}
	var ids []string
	if list, failed := i.Authz.Clients().List(r.Context()); failed == nil {
		for _, c := range list {
			ids = append(ids, c.ID)
		}
	}
	return &unknownError{"client", id, closest(id, ids), err}
}

// maxSimilar is the maximum number of suggested names.
const maxSimilar = 3

// closest returns the names that a caller may have meant, or none. The part before the @ of an address counts as a
// name.
func closest(typed string, names []string) (similar []string) {
	if name := spelling.Word(typed, names); name != "" {
		return []string{name}
	}
	whole, local := map[string]string{}, make([]string, 0, len(names))
	for _, name := range names {
		before, _, ok := strings.Cut(name, "@")
		if !ok {
			continue
		}
		if strings.EqualFold(before, typed) && len(similar) < maxSimilar {
			similar = append(similar, name)
		}
		whole[before] = name
		local = append(local, before)
	}
	if len(similar) > 0 {
		return similar
	}
	if before := spelling.Word(typed, local); before != "" {
		return []string{whole[before]}
	}
	return nil
}

// aboutSite adds the addresses that are close to that of a site that is not there.
func (i *Instance) aboutSite(address string, err error) error {
	u, wrong := url.Parse(address)
	if !errors.Is(err, explain.ErrNoSite) || wrong != nil {
		return err
	}
	var hosts []string
	for _, site := range i.Sites {
		if s, err := url.Parse(site); err == nil {
			hosts = append(hosts, s.Host)
		}
	}
	host := spelling.Word(u.Host, hosts)
	for _, site := range i.Sites {
		if s, wrong := url.Parse(site); wrong == nil && (s.Host == host || host == "" && s.Hostname() == u.Hostname()) {
			return fmt.Errorf("%w; did you mean %s?", err, site)
		}
	}
	return err
}
