package etcd_test

import (
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"gearshift/internal/etcd"
)

func TestALoginThatWasRefusedWaits(t *testing.T) {
	for cause, want := range map[error]time.Duration{rpctypes.ErrAuthFailed: 10 * time.Second, rpctypes.ErrNoLeader: time.Second} {
		if got := etcd.Wait(etcd.Address{}.Away("log in", cause), time.Second); got != want {
			t.Errorf("%v after %v, want %v", got, cause, want)
		}
	}
}

func TestNamesOfStoresAreChecked(t *testing.T) {
	for _, good := range []string{"", "gearshift.db", "./a:b/etcd.db", "/data/x.db", `C:\data\x.db`, "etcd://h:2379/g", "etcds://h:1,i:2/g"} {
		if err := etcd.Check(good); err != nil {
			t.Errorf("%q is refused: %v", good, err)
		}
	}
	for _, bad := range []string{"etcd:/h:2379/g", "etcd:h:2379/g", "etcds:/h:2379/g", "http://h:2379/g", "http://user:secret@h:2379/g", "etcd:/user:secret@h:2379/g", "etcd:user:secret@h:2379/g", "etcd://user:secret@secret@h:2379/g", "etcd://user:sec/ret@h:2379/g", "etcd3://h:2379/g", "etcd://h:2379", "etcd://h/g"} {
		err := etcd.Check(bad)
		if err == nil || !strings.Contains(err.Error(), "etcd://HOST:PORT") || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "sec") {
			t.Errorf("%q gives %v; want one line with the form, without a password", bad, err)
		}
	}
}

// A certificate for a connection that is not encrypted is a mistake that would send the password in plain text.
func TestACertificateNeedsEncryption(t *testing.T) {
	t.Setenv("GEARSHIFT_ETCD_CACERT", "ca.pem")
	a, err := etcd.Parse("etcd://127.0.0.1:1/g")
	if err != nil {
		t.Fatal(err)
	}
	const want = "cannot connect to etcd://127.0.0.1:1/g: GEARSHIFT_ETCD_CACERT is set, but etcd:// is not encrypted; want etcds://"
	if _, err = a.Dial(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
