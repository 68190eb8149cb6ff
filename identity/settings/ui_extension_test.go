package settings_test

import "testing"

func TestUIExtension(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(400, "POST", "/api/v2/config/ui-extension", `{"enable_login_redirect":true}`)
	for body, status := range map[string]int{
		`{"base_url":"http://www.example.com"}`:                               400,
		`{"base_url":"javascript:alert(1)"}`:                                  400,
		`{"base_url":"https://u@www.example.com"}`:                            400,
		`{"base_url":"https://www.example.com/?a=b"}`:                         400,
		`{"base_url":"https://www.example.com","login_path":"@evil.example"}`: 400,
		`{"base_url":"https://www.example.com","login_path":"/a/../b"}`:       400,
		`{"base_url":"https://www.example.com","login_path":"/a#b"}`:          400,
		`{"base_url":"https://www.example.com","login_path":"/a?b=c"}`:        204,
		`{"base_url":"http://127.0.0.1:8080","enable_login_redirect":true}`:   204,
		`{"base_url":"https://www.example.com/x","login_path":"/in"}`:         204,
	} {
		if a := w.call("POST", "/api/v2/config/ui-extension", body); a.status != status {
			t.Errorf("POST of %s = %d %s, want %d", body, a.status, a.body, status)
		}
	}
	if x := w.units(w.service).UIExtension; x.BaseURL == "" {
		t.Errorf("the unit is %+v", x)
	}
}
