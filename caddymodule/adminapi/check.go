package adminapi

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/identity/keystore"
)

const (
	maxCounted         = 100_000 // messages that wait
	senderCheckTimeout = 4 * time.Second
)

// CheckAnswer is the report of the running server about itself.
type CheckAnswer struct {
	Issuer  string `json:"issuer"`
	Storage string `json:"storage"`          // ok, or what is wrong with it
	Free    uint64 `json:"free,omitempty"`   // bytes
	Clients int    `json:"clients"`          // those of the configuration and those added by command
	Place   string `json:"place"`            // where the records lie
	Error   string `json:"error,omitempty"`  // set when something is wrong
	Address string `json:"address,omitzero"` // what the issuer's address answered; filled in by the command
	// Findings are the problems of the configuration, and of the machine at this moment.
	Findings []diagnostic.Finding `json:"findings"`
	// Sites are the addresses that let no one in without credentials.
	Sites []string `json:"sites,omitempty"`
	// Certificates are those of the configuration, and when they end.
	Certificates []keystore.Expiry `json:"certificates,omitempty"`
	// Providers are the identity providers by their ids: ok, or what is wrong.
	Providers map[string]string `json:"providers,omitempty"`
	// Mail is the result of the mail server: ok, or the problem. Empty: none is configured.
	Mail string `json:"mail,omitempty"`
	// MailWaiting is the number of e-mails that are not handed over yet.
	MailWaiting int `json:"mail_waiting,omitempty"`
	// SMS and Push are the same of text messages and of prompts on devices.
	SMS         string `json:"sms,omitempty"`
	SMSWaiting  int    `json:"sms_waiting,omitempty"`
	Push        string `json:"push,omitempty"`
	PushWaiting int    `json:"push_waiting,omitempty"`
}

func adminCheck(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	answer := CheckAnswer{Issuer: i.Issuer, Storage: "ok", Place: i.Place, Free: i.Free, Sites: i.Sites}
	if reason, err := i.Check(r.Context()); err != nil {
		answer.Storage, answer.Error = err.Error(), reason
	}
	list, err := i.Authz.Clients().List(r.Context())
	if err != nil {
		return nil, err
	}
	answer.Clients = len(list)
	if answer.Certificates, err = i.Config.KeyPairs().Expiries(r.Context()); err != nil {
		return nil, err
	}
	for _, e := range answer.Certificates {
		if e.Over && answer.Error == "" {
			answer.Error = "the certificate " + strconv.Quote(e.Name) + " has expired"
		}
	}
	if answer.Findings, err = i.Findings(r.Context()); err != nil {
		return nil, err
	}
	answer.Providers = i.Providers(r.Context())
	for _, id := range slices.Sorted(maps.Keys(answer.Providers)) {
		said := answer.Providers[id]
		if said == "ok" {
			continue
		}
		if known := slices.IndexFunc(answer.Findings, func(f diagnostic.Finding) bool {
			return f.About == "idp "+id && (strings.Contains(f.Reason, "no one can sign in") ||
				strings.HasPrefix(said, "key pairs: ") && strings.Contains(f.Reason, "a key pair cannot be used"))
		}); known >= 0 {
			answer.Error = cmp.Or(answer.Error, answer.Findings[known].String())
			continue
		}
		f := diagnostic.Finding{
			Severity: diagnostic.Error, Place: i.PlaceOf("idp " + id),
			Reason: "no one can sign in by the identity provider " + strconv.Quote(id) + ": " + said,
			Fix:    "see whether its address is right, and whether this machine reaches it",
		}
		answer.Findings = append(answer.Findings, f)
		if answer.Error == "" {
			answer.Error = f.String()
		}
	}
	err = i.checkSenders(r.Context(), &answer)
	return answer, err
}

// checkSenders asks the services that messages are handed to.
func (i *Instance) checkSenders(ctx context.Context, answer *CheckAnswer) error {
	for _, c := range []struct {
		sender  outbox
		said    *string
		waiting *int
		name    string
	}{
		{i.Mail, &answer.Mail, &answer.MailWaiting, "mail server"},
		{i.Texts, &answer.SMS, &answer.SMSWaiting, "service for text messages"},
		{i.Pushes, &answer.Push, &answer.PushWaiting, "service for prompts"},
	} {
		if c.sender == nil {
			continue
		}
		var err error
		if *c.said, *c.waiting, err = checkOutgoing(ctx, c.sender); err != nil {
			return err
		}
		if *c.said != "ok" && answer.Error == "" {
			answer.Error = "the " + c.name + ": " + *c.said
		}
	}
	return nil
}

// checkOutgoing asks the service of an outbox and counts what waits. said is ok, or what is wrong.
func checkOutgoing(ctx context.Context, o outbox) (said string, waiting int, err error) {
	if waiting, err = o.Waiting(ctx, maxCounted); err != nil {
		return "", 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, senderCheckTimeout)
	defer cancel()
	if err := o.Check(ctx); err != nil {
		return err.Error(), waiting, nil
	}
	return "ok", waiting, nil
}
