package caddymodule

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/internal/shellword"
	"github.com/gatehouse-id/gatehouse/internal/spelling"
	"github.com/gatehouse-id/gatehouse/storage"
)

// groupUse is a group that something asks for, and where.
type groupUse struct{ group, place string }

// NeedGroup implements protect.App.
func (a *App) NeedGroup(group, place string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if use := (groupUse{group, place}); !slices.Contains(a.groupUses, use) {
		a.groupUses = append(a.groupUses, use)
	}
}

// usesOfGroups returns the groups that sites ask for, by themselves and by the policies that they name, and clients.
func (a *App) usesOfGroups(book *policy.Book) []groupUse {
	a.mu.Lock()
	out := slices.Clone(a.groupUses)
	a.mu.Unlock()
	for _, c := range a.authz.Clients {
		for _, group := range c.Groups {
			out = append(out, groupUse{group, a.Places.Of("client " + c.ID + ": groups")})
		}
	}
	for _, use := range a.usesOfPolicies() {
		p := book.Named(use.policy)
		if p == nil || a.Policies[use.policy] != nil {
			continue
		}
		p.GroupsNeeded(func(group, place string) {
			if one := (groupUse{group, place}); !slices.Contains(out, one) {
				out = append(out, one)
			}
		})
	}
	return out
}

// maxNamed bounds the groups among which one with a similar name is sought.
const maxNamed = 1000

// examineGroups warns of groups that something asks for and that do not exist. The first person who is given a group
// makes it.
func (i *instance) examineGroups(ctx context.Context, a *App, book *policy.Book, found func(diagnostic.Finding)) error {
	written := a.Known().Groups
	persons := i.identity.Person
	return i.core.View(ctx, func(tx storage.Tx) error {
		for _, use := range a.usesOfGroups(book) {
			partition, name := "", use.group
			if persons.Partitioned() {
				var ok bool
				if partition, name, ok = strings.Cut(use.group, `\`); !ok {
					continue
				}
			}
			if spelling.Word(use.group, written) != "" && !slices.Contains(written, use.group) {
				continue // found in the configuration already
			}
			if slices.Contains(a.idps.Groups(), use.group) {
				continue // the first person who signs in by the provider makes it
			}
			id, err := persons.GroupID(tx, partition, name)
			if err != nil {
				return err
			}
			if id != "" {
				continue
			}
			fix := fmt.Sprintf("correct the name, or make the group: `caddy gatehouse group add %s`", shellword.Quote(use.group))
			list, err := persons.Groups(tx, partition, "", maxNamed)
			if err != nil {
				return err
			}
			var names []string
			for _, g := range list {
				names = append(names, g.Name)
			}
			if meant := spelling.Word(name, names); meant != "" {
				fix = fmt.Sprintf("did you mean %q?", meant)
			}
			found(diagnostic.Finding{
				Severity: diagnostic.Warning, Place: use.place,
				Reason: fmt.Sprintf("the group %q does not exist, so no one is in it", use.group), Fix: fix, About: "groups",
			})
		}
		return nil
	})
}
