/** The frame: header, navigation, the page for the address, and what lies over all pages.
 *
 * Leaves out: the pages (`areas/`). */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { asApiError, readSession, session, type ApiError } from "../api/client.ts";
import { useStore } from "../store.ts";
import { ErrorView } from "../ui/error-view.tsx";
import { Skeleton } from "../ui/states.tsx";
import { Toasts } from "../ui/toast.tsx";
import { AwayBanner } from "./away.tsx";
import { Header } from "./header.tsx";
import { Navigation } from "./navigation.tsx";
import { Overlays } from "./overlays.tsx";
import { CurrentPage } from "./page.tsx";
import { SignInAgain, SignInPage } from "./sign-in.tsx";

/** Draws the sign-in page, or the console of a signed-in person. */
export function App(): JSX.Element {
  const [asked, setAsked] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const [round, setRound] = useState(0);
  const current = useStore(session);
  useEffect(() => {
    setError(null);
    readSession().then(
      () => setAsked(true),
      (problem: unknown) => setError(asApiError(problem)),
    );
  }, [round]);
  if (error && !current) {
    return (
      <main class="alone">
        <h1>Orrery</h1>
        <ErrorView error={error} onRetry={() => setRound(round + 1)} />
      </main>
    );
  }
  if (!asked && !current) {
    return (
      <main class="alone">
        <Skeleton />
      </main>
    );
  }
  return current ? <Console /> : <SignInPage />;
}

function Console(): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={skip}>
        Skip to the page
      </a>
      <Header onMenu={() => setOpen(!isOpen)} isMenuOpen={isOpen} />
      <AwayBanner />
      <div class="frame-body">
        <Navigation isOpen={isOpen} onClose={() => setOpen(false)} />
        <main id="main" class="page" tabIndex={-1}>
          <CurrentPage />
        </main>
      </div>
      <Overlays />
      <SignInAgain />
      <Toasts />
    </div>
  );
}

/** The address after `#` is the page, so the link moves the focus itself. */
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}
