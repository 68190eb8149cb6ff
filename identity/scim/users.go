package scim

import (
	"context"
	"net/http"
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// userOf returns a person of the partition as a resource.
func (s *Server) userOf(ctx context.Context, c *call, id string) (o object, err error) {
	err = s.deps.Identity.Person.View(ctx, func(tx storage.Tx) error {
		d, err := s.deps.Identity.Person.Details(tx, id)
		if err != nil {
			return err
		}
		if d.Partition != c.partition {
			return notFound()
		}
		o, err = s.userTree(&d, s.groupIDs(tx, c, map[string]string{}))
		return err
	})
	return o, err
}

// readUser serves GET /scim/v2/Users/{id}. (RFC 7644 3.4.1)
func (s *Server) readUser(w http.ResponseWriter, r *http.Request, c *call) error {
	id, err := resourceID(r)
	if err != nil {
		return err
	}
	o, err := s.userOf(r.Context(), c, id)
	if err != nil {
		return err
	}
	return answerRead(w, r, userType, o)
}

// answerRead writes a resource, or 304 when the client has this version. (RFC 7644 3.14)
func answerRead(w http.ResponseWriter, r *http.Request, t *resourceType, o object) error {
	sel, err := selectionOfQuery(t, r.URL.Query())
	if err != nil {
		return err
	}
	meta, _ := o["meta"].(object)
	if matches(r.Header.Values("If-None-Match"), text(meta, "version")) {
		headers(w)
		w.Header().Set("ETag", text(meta, "version"))
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	answer(w, http.StatusOK, o, sel)
	return nil
}

// createUser serves POST /scim/v2/Users. (RFC 7644 3.3)
func (s *Server) createUser(w http.ResponseWriter, r *http.Request, c *call) error {
	sel, err := selectionOfQuery(userType, r.URL.Query())
	if err != nil {
		return err
	}
	read := new(reader)
	o, err := read.readResource(w, r, c.users())
	if err != nil {
		return err
	}
	d := person.Details{State: person.Active}
	applyUser(&d, o)
	n := person.NewPerson{
		Username: d.Username, Password: secret.New(text(o, "password")), Partition: c.partition, Inactive: d.State != person.Active,
		Profile: &d.Profile, Directory: &d.Directory, Foreign: true, LeftOut: read.leftOut(),
	}
	if said, ok := saysVerified(o); ok && c.vouches {
		n.EmailVerified = &said
	}
	if d, err = s.deps.Identity.Person.CreatePerson(r.Context(), n, c.by); err != nil {
		return err
	}
	made, err := s.userTree(&d, nil) // a new person has no group
	if err != nil {
		return err
	}
	s.tellLeft(w, r, c, scimNames(d.LeftOut))
	answer(w, http.StatusCreated, made, sel)
	return nil
}

// replaceUser serves PUT /scim/v2/Users/{id}. (RFC 7644 3.5.1)
func (s *Server) replaceUser(w http.ResponseWriter, r *http.Request, c *call) error {
	read := new(reader)
	o, err := read.readResource(w, r, c.users())
	if err != nil {
		return err
	}
	id, err := resourceID(r)
	if err != nil {
		return err
	}
	password := secret.New(text(o, "password"))
	if !password.IsZero() { // nothing is hashed for a person of another partition
		if _, err := s.userOf(r.Context(), c, id); err != nil {
			return err
		}
	}
	return s.updateUser(w, r, c, id, read, password, func(object) (object, error) { return o, nil })
}

// patchUser serves PATCH /scim/v2/Users/{id}. (RFC 7644 3.5.2) All operations take effect, or none.
func (s *Server) patchUser(w http.ResponseWriter, r *http.Request, c *call) error {
	v, err := readBody(w, r)
	if err != nil {
		return err
	}
	read := new(reader)
	ops, err := read.parsePatch(c.users(), v)
	if err != nil {
		return err
	}
	change := func(now object) (object, error) {
		// Read-only attributes are left out: the list of groups may be long.
		o := object{}
		for name, v := range now {
			if a := find(userType.root, name); a == nil || a.mutability != readOnly {
				o[name] = v
			}
		}
		if ours, ok := o[ourUser].(object); ok { // it is about the address that was there
			ours = cloneObject(ours)
			delete(ours, emailVerified)
			o[ourUser] = ours
		}
		return o, c.users().apply(o, ops)
	}
	id, err := resourceID(r)
	if err != nil {
		return err
	}
	var password secret.String
	if slices.ContainsFunc(ops, operation.mayHavePassword) { // it is hashed before the transaction
		now, err := s.userOf(r.Context(), c, id)
		if err != nil {
			return err
		}
		after, err := change(now)
		if err != nil {
			return err
		}
		password = secret.New(text(after, "password"))
	}
	return s.updateUser(w, r, c, id, read, password, change)
}

// updateUser changes a person by change, which returns the new resource for the present one.
func (s *Server) updateUser(w http.ResponseWriter, r *http.Request, c *call, id string, read *reader, password secret.String,
	change func(object) (object, error),
) error {
	sel, err := selectionOfQuery(userType, r.URL.Query())
	if err != nil {
		return err
	}
	var groups map[string]string
	edit := person.Edit{By: c.by, Password: password, Foreign: true, Verified: c.vouches, Complete: true}
	after, err := s.deps.Identity.Person.UpdatePerson(r.Context(), id, edit, func(tx storage.Tx, d *person.Details) error {
		if d.Partition != c.partition {
			return notFound()
		}
		groups = map[string]string{}
		now, err := s.userTree(d, s.groupIDs(tx, c, groups))
		if err != nil {
			return err
		}
		if err := unchanged(r, now); err != nil {
			return err
		}
		o, err := change(now)
		if err == nil {
			before := d.Profile
			applyUser(d, o)
			d.LeftOut = read.leftOut()
			if c.vouches {
				vouch(&d.Profile, &before, o)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	// A change of a user leaves the groups, so their ids are known from the transaction.
	made, err := s.userTree(&after, func(name string) (string, error) { return groups[name], nil })
	if err != nil {
		return err
	}
	s.tellLeft(w, r, c, scimNames(after.LeftOut))
	answer(w, http.StatusOK, made, sel)
	return nil
}

// deleteUser serves DELETE /scim/v2/Users/{id}. (RFC 7644 3.6) All data of the person is gone at once, and another
// person of the same name gets none of it.
func (s *Server) deleteUser(w http.ResponseWriter, r *http.Request, c *call) error {
	id, err := resourceID(r)
	if err != nil {
		return err
	}
	err = s.deps.Identity.Person.RemovePerson(r.Context(), id, c.by, func(tx storage.Tx, d *person.Details) error {
		if d.Partition != c.partition {
			return notFound()
		}
		o, err := s.userTree(d, s.groupIDs(tx, c, map[string]string{}))
		if err != nil {
			return err
		}
		return unchanged(r, o)
	})
	if err != nil {
		return err
	}
	headers(w)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// listUsers serves GET /scim/v2/Users. (RFC 7644 3.4.2)
func (s *Server) listUsers(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := queryOfURL(userType, r)
	if err != nil {
		return err
	}
	return s.answerUsers(w, r, c, q)
}

// searchUsers serves POST /scim/v2/Users/.search. (RFC 7644 3.4.3)
func (s *Server) searchUsers(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := queryOfBody(userType, w, r)
	if err != nil {
		return err
	}
	return s.answerUsers(w, r, c, q)
}

func (s *Server) answerUsers(w http.ResponseWriter, r *http.Request, c *call, q *query) error {
	page, err := s.findUsers(r.Context(), c, q)
	if err != nil {
		return err
	}
	page.write(w, q)
	return nil
}
