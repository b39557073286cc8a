package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/bank-simulator/bank"
)

func TestOnlyTheCentralBankChangesHowBanksBehave(t *testing.T) {
	folder := t.TempDir()

	dir, digests := filepath.Join(folder, "keys"), filepath.Join(folder, "digests")
	if err := keys.Make(dir, digests, []pix.ISPB{"10000001"}); err != nil {
		t.Fatal(err)
	}

	all, err := keys.ReadAll(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := startProgram(t, startBroker(t, bothTopics...), "HTTP_KEYS_FILE="+digests)
	p.AwaitReady()
	key, centralBank := all["10000001"], all[keys.CentralBank]
	const profile = `{"accept_share": 0, "reject_codes": ["AC14"]}`

	for _, c := range []struct {
		authorization string
		status        int
	}{
		{"", http.StatusUnauthorized},
		{"Bearer", http.StatusUnauthorized},
		{"Bearer " + keys.CentralBank, http.StatusUnauthorized},
		{"Bearer " + centralBank + "0", http.StatusUnauthorized},
		{"Bearer " + keys.CentralBank + key[strings.Index(key, "."):], http.StatusUnauthorized},
		{"Basic " + centralBank, http.StatusUnauthorized},
		{centralBank, http.StatusUnauthorized},
		{"Bearer " + key, http.StatusUnauthorized},
	} {
		for _, route := range []struct{ method, path string }{
			{"GET", "/v1/profiles"}, {"GET", "/v1/profiles/default"}, {"PUT", "/v1/profiles/default"},
			{"PUT", "/v1/profiles/10000001/0001"}, {"DELETE", "/v1/profiles/default/9003"}, {"GET", "/"},
		} {
			status, body := p.call(route.method, route.path, profile, "Authorization", c.authorization)
			if status != c.status || !strings.Contains(body, `"field":"Authorization"`) ||
				strings.Contains(body, centralBank[len(keys.CentralBank)+1:][:16]) {
				t.Errorf("%s %s as %.24q: %d %s, want %d and no key in it", route.method, route.path, c.authorization,
					status, body, c.status)
			}
		}
	}
	as := "Bearer " + centralBank

	before := func() string { _, body := p.call("GET", "/v1/profiles", "", "Authorization", as); return body }
	if shown := before(); strings.Contains(shown, "AC14") || !strings.Contains(shown, `"default/9003"`) {
		t.Errorf("who was refused has changed the profiles: %s", shown)
	}

	if status, body := p.call("PUT", "/v1/profiles/default", profile, "Authorization", as); status != http.StatusOK {
		t.Errorf("the central bank: %d %s", status, body)
	}

	if shown := before(); !strings.Contains(shown, "AC14") {
		t.Errorf("what the central bank has put does not show: %s", shown)
	}
}

func TestProfilesWithoutKeysAreServedOnLoopbackOnly(t *testing.T) {
	for _, c := range []struct{ address, keysFile, says string }{
		{"127.0.0.1:8081", "", ""},
		{"[::1]:8081", "", ""},
		{"0.0.0.0:8081", "", "HTTP_ADDRESS is not on loopback"},
		{":8081", "", "HTTP_ADDRESS is not on loopback"},
		{"0.0.0.0:8081", "digests", ""},
	} {
		t.Run(c.address+c.keysFile, func(t *testing.T) {
			t.Setenv("HTTP_ADDRESS", c.address)
			t.Setenv("HTTP_KEYS_FILE", c.keysFile)

			config := &bank.Config{Telemetry: telemetry.Config{Address: "127.0.0.1:9102"},
				HTTP: web.Config{Address: "127.0.0.1:8081"}}
			if err := settings.Parse(config); (err != nil) != (c.says != "") || err != nil &&
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}
