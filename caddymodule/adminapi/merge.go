package adminapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/person/merge"
	"github.com/gatehouse-id/gatehouse/storage"
)

// MergeRequest names the account that stays and the one that it takes over. DryRun only says what would happen.
type MergeRequest struct {
	Person string `json:"person"`
	Other  string `json:"other"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// Merge are the things that an account takes over from another one, and those that end with that one.
type Merge struct {
	Person    person.Person `json:"person"`
	Removed   person.Person `json:"removed"`
	Providers []string      `json:"providers,omitempty"`
	Groups    []string      `json:"groups,omitempty"`
	Addresses []string      `json:"addresses,omitempty"` // e-mail addresses and telephone numbers
	Left      []string      `json:"left,omitempty"`      // providers whose link ends
	Sessions  int           `json:"sessions"`            // that end
	Tokens    int           `json:"tokens"`              // that end, app passwords included
	Merged    bool          `json:"merged"`
}

// mergeRefusals are the messages about accounts that cannot be merged.
var mergeRefusals = map[error]string{
	merge.ErrSame:      "these are the same account",
	merge.ErrPartition: "the accounts are of different partitions",
	merge.ErrState:     "both accounts must be active",
}

func mergeRefusal(err error) error {
	for known, text := range mergeRefusals {
		if errors.Is(err, known) {
			return badRequestf("%s", text)
		}
	}
	return err
}

// adminMerge makes one account of two that belong to the same human, as the console does.
func adminMerge(i *Instance, r *http.Request, in MergeRequest) (any, error) {
	var out Merge
	var err error
	if out.Person, err = i.person(r, in.Person); err == nil {
		out.Removed, err = i.person(r, in.Other)
	}
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	err = i.Store.View(r.Context(), func(tx storage.Tx) error {
		plan, err := merge.Look(tx, i.Identity.Person, out.Person.ID, out.Removed.ID)
		if err != nil {
			return err
		}
		d, err := i.manage().Details(tx, out.Removed, now)
		out.Providers, out.Groups, out.Left = plan.Providers, plan.Groups, plan.Left
		out.Addresses = append(plan.Addresses, plan.Numbers...)
		out.Sessions, out.Tokens = len(d.Sessions), len(d.Tokens)+len(d.AppPasswords)
		return err
	})
	if err != nil || in.DryRun {
		return out, mergeRefusal(err)
	}
	m := merge.Service{Persons: i.Identity.Person, Store: i.Store, Events: i.Recorder}
	err = m.Merge(r.Context(), out.Person.ID, out.Removed.ID, caller(r), nil)
	out.Merged = err == nil
	return out, mergeRefusal(err)
}
