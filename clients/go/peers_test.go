// Peers that are not what they should be, and encrypted connections, which are used if they are trusted.

package callgate_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	callgate "callgate.invalid/clients/go"
	"callgate.invalid/clients/go/internal/pb"
)

// certificate is one for localhost that trusts itself.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	text, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(text)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{text}, PrivateKey: key}, pool
}

// teller answers with what the caller has said of itself.
type teller struct {
	pb.UnimplementedServerServiceServer
}

func (teller) GetServerInfo(ctx context.Context, _ *pb.GetServerInfoRequest) (*pb.GetServerInfoResponse, error) {
	said, _ := metadata.FromIncomingContext(ctx)
	return &pb.GetServerInfoResponse{Version: said.Get("authorization")[0] + ", " + said.Get("callgate-client")[0]}, nil
}

func TestEncryptedConnectionIsUsedIfItIsTrusted(t *testing.T) {
	own, pool := certificate(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&own)))
	pb.RegisterServerServiceServer(server, teller{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() { server.Stop(); <-served }()
	_, port, _ := net.SplitHostPort(listener.Addr().String())

	ask := func(given ...callgate.Option) (string, error) {
		client, err := callgate.New(append(given, callgate.WithEndpoint("https://localhost:"+port), callgate.WithToken("secret"))...)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close(patient(t))
		info, err := client.ServerInfo(patient(t))
		if err != nil {
			return "", err
		}
		return info.Version, nil
	}
	found, err := ask(callgate.WithTLS(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "said", found, "Bearer secret, callgate-go/"+callgate.Version)
	_, err = ask()
	isKind(t, err, callgate.ErrConnectionLost)
}

func TestServerThatSpeaksNoGRPCIsToldAsSuch(t *testing.T) {
	page := httptest.NewServer(http.NotFoundHandler())
	defer page.Close()
	client, err := callgate.New(callgate.WithEndpoint(page.URL), callgate.WithExecutor("test"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(patient(t))
	_, err = client.ServerInfo(patient(t))
	isKind(t, err, callgate.ErrProtocol)
	isKind(t, client.Serve(patient(t)), callgate.ErrProtocol)
}
