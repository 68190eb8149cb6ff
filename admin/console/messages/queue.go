package messages

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	queuePath = messagesPath + "/queue"
	// FailedPath is the list of the messages that were given up.
	FailedPath = layout.Root + queuePath + "?state=failed"
)

// QueuePath is the list of the messages of a channel (mail, sms, push) that wait to be sent.
func QueuePath(channel string) string { return layout.With(layout.Root+queuePath, "channel", channel) }

// queueScreen lists the messages that are not sent: those that wait, and those that were given up.
func (t *texts) queueScreen() *layout.Screen {
	return &layout.Screen{
		Name: "queue", Path: queuePath, Icon: "mail", Role: layout.Viewer, Show: t.showQueue,
		Acts: []*layout.Act{
			{Name: "send-now", Role: layout.Helpdesk, Hidden: true, Ask: t.askQueued, Do: t.sendNow},
			{Name: "drop-message", Role: layout.Operator, Danger: true, Hidden: true, Ask: t.askQueued, Do: t.dropMessage},
		},
	}
}

// encodeKey encodes the key of a message for addresses; decodeKey reverses it.
func encodeKey(channel, key string) string {
	return channel + "." + base64.RawURLEncoding.EncodeToString([]byte(key))
}

func decodeKey(s string) (channel, key string) {
	channel, encoded, _ := strings.Cut(s, ".")
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return "", ""
	}
	return channel, string(raw)
}

// queueFilter is the filter in the address of the list.
type queueFilter struct {
	channel string // empty: all
	givenUp bool
}

func (t *texts) queueFilter(q url.Values) (f queueFilter) {
	for _, o := range t.Manage.Outgoing {
		if o.Channel() == q.Get("channel") {
			f.channel = o.Channel()
		}
	}
	f.givenUp = q.Get("state") == "failed"
	return f
}

// queued reads a page of the list: one channel after the other.
func (t *texts) queued(tx storage.Tx, f queueFilter, after string, now time.Time) (list []notify.Item, next string, err error) {
	channel, key := decodeKey(after)
	for _, o := range t.Manage.Outgoing {
		if f.channel != "" && o.Channel() != f.channel || channel != "" && o.Channel() != channel {
			continue
		}
		some, more, err := o.List(tx, f.givenUp, key, layout.Rows-len(list), now)
		if err != nil {
			return nil, "", err
		}
		channel, key = "", ""
		if list = append(list, some...); more {
			last := list[len(list)-1]
			return list, encodeKey(last.Channel, last.Key), nil
		}
	}
	return list, "", nil
}

func (t *texts) showQueue(v *layout.Visit) (*web.Console, error) {
	f := t.queueFilter(v.URL.Query())
	var list []notify.Item
	var next string
	var people map[string]person.Person
	err := t.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		if list, next, err = t.queued(tx, f, v.URL.Query().Get("after"), v.Now); err != nil {
			return err
		}
		people, err = t.peopleOf(tx, list)
		return err
	})
	if err != nil {
		return nil, err
	}
	due := "console.column.next_try"
	if f.givenUp {
		due = "console.column.given_up"
	}
	table := &web.Table{
		Label: web.Say("console.queue.title"),
		Columns: []string{
			"console.column.message", "console.column.to", "console.column.since", "console.column.attempts", due,
			"console.act.send-now", "console.act.drop-message",
		},
	}
	for i := range list {
		m := &list[i]
		kind, err := t.kindOf(v, m)
		if err != nil {
			return nil, err
		}
		row := web.TableRow{Cells: []web.Cell{
			kind, recipient(m, people),
			{Text: web.Say("console.time", "time", m.Since)},
			{Name: strconv.Itoa(m.Tries)},
			nextCell(m),
			{},
			{},
		}}
		if p, known := people[m.PersonID]; m.PersonID == "" || !known || v.Outranks(t.rankOf(&p)) {
			if !m.Late && !m.Trying {
				row.Cells[5] = v.Link("send-now", "item", encodeKey(m.Channel, m.Key))
			}
			if !m.Trying {
				row.Cells[6] = v.Link("drop-message", "item", encodeKey(m.Channel, m.Key))
			}
		}
		table.Rows = append(table.Rows, row)
	}
	table.First, table.Next = v.Pages(next)
	part := web.ConsolePart{ID: "queue", Title: web.Say("console.queue.waiting"), Text: web.Say("console.queue.waiting.text"), Table: table}
	if f.givenUp {
		part.Title, part.Text = web.Say("console.queue.failed"), web.Say("console.queue.failed.text")
	}
	for _, state := range []string{"waiting", "failed"} {
		to := url.Values{"state": {state}}
		if f.channel != "" {
			to.Set("channel", f.channel)
		}
		part.Choices = append(part.Choices,
			web.Choice{Label: "console.queue." + state, URL: v.Path() + "?" + to.Encode(), Current: (state == "failed") == f.givenUp})
	}
	out := &web.Console{Title: web.Say("console.queue.title"), Lead: web.Say("console.queue.text"), Parts: []web.ConsolePart{part}}
	if len(t.Manage.Outgoing) > 1 {
		out.Filter = t.channelFilter(v, f)
	}
	if len(list) == 0 && next == "" {
		out.Parts[0].Table = nil
		out.Parts[0].Empty = &web.Empty{Text: web.Say("console.queue.none")}
		switch {
		case len(t.Manage.Outgoing) == 0:
			out.Parts[0].Empty = &web.Empty{
				Text: web.Say("console.queue.nothing"),
				Next: &web.Action{Label: "console.findings.title", URL: layout.Root + "#findings"},
			}
		case f.givenUp:
			out.Parts[0].Empty.Text = web.Say("console.queue.none_failed")
		}
	}
	return out, nil
}

// channelFilter chooses one of the channels.
func (t *texts) channelFilter(v *layout.Visit, f queueFilter) *web.Filter {
	field := web.Field{
		Name: "channel", Type: "select", Label: "console.field.channel", Value: f.channel,
		Options: []web.Option{{Label: "console.channel.all"}},
	}
	for _, o := range t.Manage.Outgoing {
		field.Options = append(field.Options, web.Option{Value: o.Channel(), Label: "console.channel." + o.Channel()})
	}
	out := &web.Filter{Action: v.Path(), Fields: []web.Field{field}}
	if f.givenUp {
		out.Hidden = []web.Hidden{{Name: "state", Value: "failed"}}
	}
	return out
}

// peopleOf returns the recipients of messages, by their ids.
func (t *texts) peopleOf(tx storage.Tx, list []notify.Item) (map[string]person.Person, error) {
	var ids []string
	for i := range list {
		if list[i].PersonID != "" {
			ids = append(ids, list[i].PersonID)
		}
	}
	found, err := t.identity.Person.ManyPersons(tx, ids)
	out := map[string]person.Person{}
	for i := range found {
		out[found[i].ID] = found[i]
	}
	return out, err
}

func (t *texts) rankOf(p *person.Person) layout.Role { return t.frame.RoleOf(p.Partition, p.Groups) }

// kindOf shows the kind of a message by its subject with example data, and links to its preview.
func (t *texts) kindOf(v *layout.Visit, m *notify.Item) (web.Cell, error) {
	way := web.Say("console.channel." + m.Channel)
	id := m.Channel + "." + string(m.Kind)
	x := exampleOf(id)
	if x == nil {
		return web.Cell{Text: way}, nil
	}
	name, err := t.title(v, x, t.locale(v))
	return web.Cell{Name: name, URL: previewPath(id), Hint: way}, err
}

// recipient shows the address of a message, and the account that it belongs to.
func recipient(m *notify.Item, people map[string]person.Person) web.Cell {
	p, known := people[m.PersonID]
	switch {
	case !known:
		return layout.OrNone(m.To)
	case m.To == "":
		return web.Cell{Name: p.Username, URL: personPath(p.ID)}
	case m.To == p.Username:
		return web.Cell{Name: m.To, URL: personPath(p.ID)}
	}
	return web.Cell{Name: m.To, Note: p.Username, URL: personPath(p.ID)}
}

func personPath(id string) string { return layout.Root + "/persons/" + url.PathEscape(id) }

// nextCell says when a message is tried next, or was given up, and why the last try failed.
func nextCell(m *notify.Item) web.Cell {
	switch {
	case m.Trying:
		return web.Cell{Text: web.Say("console.queue.trying"), Kind: "plain"}
	case m.Late:
		return web.Cell{Text: web.Say("console.time", "time", m.Next), Hint: web.Say("console.queue.late")}
	}
	return web.Cell{Text: web.Say("console.time", "time", m.Next), Hint: web.Said(m.Problem)}
}

// askQueued shows the message that the action is about, or its new state: the key of a message that was tried since the
// list was shown has changed.
func (t *texts) askQueued(v *layout.Visit) (q layout.Question, err error) {
	item, hidden := v.Chosen("item")
	channel, key := decodeKey(item)
	var m notify.Item
	var found, moved bool
	var people map[string]person.Person
	err = t.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		if m, found, err = t.Manage.FindMessage(tx, channel, key, v.Now); err == nil && !found {
			m, moved, err = t.Manage.MovedMessage(tx, channel, key, v.Now)
		}
		if err != nil || !found {
			return err
		}
		people, err = t.peopleOf(tx, []notify.Item{m})
		return err
	})
	if err != nil {
		return q, err
	}
	if !found {
		q.Off = &web.Empty{Text: web.Say("console.queue.left"), Next: &web.Action{Label: "console.queue.waiting", URL: v.Path()}}
		switch {
		case moved && m.GivenUp:
			q.Off.Text, q.Off.Next = web.Say("console.queue.failed_since"), &web.Action{Label: "console.queue.failed", URL: FailedPath}
		case moved:
			q.Off.Text = web.Say("console.queue.moved")
		}
		return q, nil
	}
	q.Hidden = hidden
	kind, err := t.kindOf(v, &m)
	if err != nil {
		return q, err
	}
	to := recipient(&m, people)
	kind.URL, to.URL = "", ""
	problem := layout.OrNone("")
	if m.Problem != "" {
		problem = web.Cell{Text: web.Said(m.Problem)}
	}
	q.Facts = []web.ConsoleFact{
		{Label: "console.column.message", Cells: []web.Cell{kind}},
		{Label: "console.column.to", Cells: []web.Cell{to}},
		{Label: "console.column.since", Cells: []web.Cell{{Text: web.Say("console.time", "time", m.Since)}}},
		{Label: "console.column.attempts", Cells: []web.Cell{{Name: strconv.Itoa(m.Tries)}}},
		{Label: "console.column.last_error", Cells: []web.Cell{problem}},
	}
	return q, nil
}

// checkRecipient rejects acts on messages to a person of equal or higher rank: notices about their account must not be
// suppressed. It looks in the transaction of the change.
func (t *texts) checkRecipient(v *layout.Visit) func(storage.Tx, notify.Item) error {
	return func(tx storage.Tx, m notify.Item) error {
		if m.PersonID == "" {
			return nil
		}
		_, rec, err := t.identity.Person.Find(tx, m.PersonID)
		if errors.Is(err, person.ErrNoPerson) {
			return nil
		}
		if err != nil {
			return err
		}
		if !v.Outranks(t.frame.RoleOf(rec.PartitionName(), rec.Groups)) {
			return layout.Denied("the other person is of equal or higher rank")
		}
		return nil
	}
}

func (t *texts) sendNow(v *layout.Visit, in url.Values) (layout.Result, error) {
	channel, key := decodeKey(in.Get("item"))
	return layout.Result{}, t.Manage.SendNow(v.Context(), channel, key, v.Actor(), t.checkRecipient(v))
}

func (t *texts) dropMessage(v *layout.Visit, in url.Values) (layout.Result, error) {
	channel, key := decodeKey(in.Get("item"))
	return layout.Result{}, t.Manage.DropMessage(v.Context(), channel, key, v.Actor(), t.checkRecipient(v))
}
