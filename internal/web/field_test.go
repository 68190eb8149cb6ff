package web

import (
	"bytes"
	"strings"
	"testing"
)

// part executes one of the shared templates with the result of made.
func part(t *testing.T, name string, made func(frame) any) string {
	t.Helper()
	p, err := New(Config{Issuer: "https://auth.example.com", Key: make([]byte, 32), Brand: Brand{Name: "Albers"}})
	if err != nil {
		t.Fatal(err)
	}
	page, err := p.templates.page("sign_in")
	if err != nil {
		t.Fatal(err)
	}
	f := frame{language: p.catalogue.Load().languages[0], Brand: p.cfg.Brand}
	var b bytes.Buffer
	if err := page.ExecuteTemplate(&b, name, made(f)); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

func TestField(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		field Field
		want  []string
		not   []string
	}{
		"text": {
			Field{Name: "city", Label: "City", Value: `"<b>`, MaxLength: 256},
			[]string{
				`<label for="city">City</label>`,
				`type="text" id="city" name="city" value="&#34;&lt;b&gt;" autocomplete="off" maxlength="256"`,
			},
			[]string{"autocapitalize", "aria-", "required", "autofocus"},
		},
		"e-mail with a problem": {
			Field{
				Name: "email", Type: "email", Label: "E-mail", Hint: "Hint", Problem: "problem.wait", ProblemFill: []any{"time", "40 seconds"},
				Autocomplete: "email", Required: true, Focus: true,
			},
			[]string{
				`type="email"`, `autocomplete="email" autocapitalize="none" autocorrect="off" spellcheck="false"`,
				`aria-describedby="email-hint email-problem" aria-invalid="true" required autofocus`, `id="email-hint">Hint<`, `id="email-problem">`,
				"Try again in 40 seconds.",
			},
			nil,
		},
		"new password": {
			Field{
				Name: "password", ID: "new", Type: "password", Label: "sign_in.password", Autocomplete: "new-password", Value: "",
				Lines: []Text{Say("duration.minutes", "n", 12), Say("{brand}")},
			},
			[]string{
				`<label for="new">Password</label>`, `id="new" name="password" autocomplete="new-password"`, `aria-describedby="new-lines"`,
				"<li>12 minutes</li><li>{brand}</li>",
			},
			[]string{"maxlength", "autocapitalize"},
		},
		"code": {
			Field{Name: "code", Type: "code", Label: "Code"},
			[]string{`type="text"`, `inputmode="numeric"`, `autocomplete="one-time-code"`, `class="code"`, `spellcheck="false"`},
			nil,
		},
		"secret": {
			Field{Name: "pin", Type: "secret", Label: "PIN", InputMode: "numeric"},
			[]string{`type="password"`, `class="code"`, `autocomplete="off"`},
			nil,
		},
		"checkbox": {
			Field{Name: "news", Type: "checkbox", Label: "News", Checked: true, Problem: "Tick it"},
			[]string{
				`type="checkbox" id="news" name="news" value="yes"`, `aria-describedby="news-problem" aria-invalid="true" checked`,
				`<label for="news">News</label>`,
			},
			nil,
		},
		"select": {
			Field{
				Name: "gender", Type: "select", Label: "Gender", Value: "F", Autocomplete: "sex",
				Options: []Option{{Label: "-"}, {Value: "F", Label: "<Woman>"}},
			},
			[]string{
				`<select id="gender" name="gender" autocomplete="sex">`, `<option value="">-</option>`,
				`<option value="F" selected>&lt;Woman&gt;</option>`,
			},
			nil,
		},
		"marked by the notice": {
			Field{Name: "username", Label: "U", Invalid: true},
			[]string{`aria-describedby="problem" aria-invalid="true"`},
			[]string{`class="error"`},
		},
	} {
		got := part(t, "field", func(f frame) any { return f.Field(tt.field) })
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: field has no %q:\n%s", name, want, got)
			}
		}
		for _, not := range tt.not {
			if strings.Contains(got, not) {
				t.Errorf("%s: field has %q:\n%s", name, not, got)
			}
		}
	}
}

func TestFieldsFocus(t *testing.T) {
	t.Parallel()
	a, b, c := Field{Name: "a", Value: "x"}, Field{Name: "b"}, Field{Name: "c", Problem: "p"}
	for name, tt := range map[string]struct {
		notice bool
		list   []Field
		want   string
	}{
		"first empty":              {false, []Field{a, b}, "b"},
		"first with a problem":     {false, []Field{a, b, c}, "c"},
		"none next to a notice":    {true, []Field{a, b}, ""},
		"a problem and a notice":   {true, []Field{a, b, c}, "c"},
		"what the notice is about": {true, []Field{a, {Name: "d", Value: "x", Invalid: true}, {Name: "e", Invalid: true}}, "e"},
		"none when all are filled": {false, []Field{a}, ""},
		"no checkbox":              {false, []Field{{Name: "d", Type: "checkbox"}, b}, "b"},
	} {
		got := ""
		list := Fields(tt.notice, tt.list...)
		for _, f := range list {
			if f.Focus {
				got += f.Name
			}
		}
		if got != tt.want {
			t.Errorf("%s: Fields focuses %q, want %q", name, got, tt.want)
		}
		if last := list[len(list)-1]; last.EnterKeyHint != "go" {
			t.Errorf("%s: Enter in the last field is %q, want go", name, last.EnterKeyHint)
		}
	}
}

func TestNotice(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"bad": `class="notice bad" id="problem" role="alert" tabindex="-1" autofocus`, "good": `class="notice good" role="status"`,
		"warn": `class="notice warn" role="status"`,
		"info": `class="notice info" role="status"`,
	} {
		got := part(t, "notice", func(f frame) any { return f.Notice(kind, "problem.mismatch") })
		if !strings.Contains(got, want) || !strings.Contains(got, "your Albers administrator") {
			t.Errorf("Notice(%q) = %s, want %s", kind, got, want)
		}
	}
	if got := part(t, "notice", func(f frame) any { return f.Notice("bad", "") }); got != "" {
		t.Errorf("Notice of nothing = %q, want nothing", got)
	}
}

func TestRow(t *testing.T) {
	t.Parallel()
	got := part(t, "row", func(f frame) any {
		return f.Row(Row{
			Icon: "device", Name: "Firefox <on> Linux", Mark: Say("This device"), Details: []Text{Say("problem.wait", "time", "1 minute")},
			Actions: []Action{
				{Label: "security.remove", URL: "/x?id=1"},
				{Label: "error.again", URL: "/y", CSRF: "t", Fields: []Hidden{{"id", `"1`}}},
			},
		})
	})
	for _, want := range []string{
		"<b>Firefox &lt;on&gt; Linux</b>", `<span class="mark">This device</span>`, "Try again in 1 minute.",
		`<a href="/x?id=1" aria-label="Remove: Firefox &lt;on&gt; Linux">Remove</a>`,
		`<form method="post" action="/y"><input type="hidden" name="csrf" value="t"><input type="hidden" name="id" value="&#34;1"><button class="link"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("row has no %q:\n%s", want, got)
		}
	}
	if strings.Contains(part(t, "row", func(f frame) any { return f.Row(Row{Icon: `"><script>`, Name: "x"}) }), "script") {
		t.Error("row draws an unknown icon")
	}
}

func TestButtons(t *testing.T) {
	t.Parallel()
	if got := part(t, "buttons", func(f frame) any { return f.Buttons("step_up.submit", "/account") }); !strings.Contains(got,
		`<button class="button">Confirm</button>`) || !strings.Contains(got, `href="/account">Cancel</a>`) {
		t.Errorf("buttons = %s", got)
	}
	if got := part(t, "buttons", func(f frame) any { return f.Buttons("step_up.submit", "") }); strings.Contains(got, "<a") {
		t.Errorf("buttons without a way back = %s", got)
	}
	if got := part(t, "empty", func(frame) any { return "Nothing <yet>" }); got != `<p class="empty">Nothing &lt;yet&gt;</p>` {
		t.Errorf("empty = %s", got)
	}
}
