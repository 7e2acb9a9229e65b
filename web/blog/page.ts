/** The page as a whole: modules that look at it again when its content changed, and its exchange
 * for another page without a load.
 *
 * The server is the only renderer. A script takes elements or whole pages out of the server's
 * answers and never makes markup of its own. */

type Setup = (root: ParentNode) => void;

const setups: Setup[] = [];

/** Runs `setup` for the document now, and for each part that is exchanged later. */
export function onContent(setup: Setup): void {
  setups.push(setup);
  setup(document);
}

/** Returns the address that a form is sent to. The property `action` of a form is a control if one
 * has this name. */
export function target(form: HTMLFormElement): URL {
  return new URL(form.getAttribute("action") ?? "", location.href);
}

/** Parses the text of an answer. Scripts in it do not run. */
export function parsed(text: string): Document {
  return new DOMParser().parseFromString(text, "text/html");
}

/** Exchanges the element with this id for the element with the same id in `answer`. The element of
 * the page stays if the answer has none. Returns the element that is now in the page. */
export function exchange(id: string, answer: Document): Element | null {
  const old = document.getElementById(id);
  const fresh = answer.getElementById(id);
  if (!old || !fresh) return old;
  keepOpenDetails(old, fresh);
  const focused = old.contains(document.activeElement) ? document.activeElement?.id : undefined;
  old.replaceWith(fresh);
  for (const setup of setups) setup(fresh);
  if (focused) document.getElementById(focused)?.focus();
  return fresh;
}

function keepOpenDetails(old: Element, fresh: Element): void {
  const before = old.querySelectorAll("details");
  const after = fresh.querySelectorAll("details");
  if (before.length !== after.length) return;
  after.forEach((details, place) => {
    details.open = before[place]?.open ?? false;
  });
}

/** Shows a whole page that was the answer at `url`. The place in the page and the focus are kept if
 * it is the same page, and start at the top otherwise. */
export function show(answer: Document, url: string): void {
  const isSamePage = new URL(url).pathname === location.pathname;
  const focused = document.activeElement?.id;
  const scrolled = window.scrollY;

  document.title = answer.title;
  document.body.replaceWith(answer.body);
  if (url !== location.href) history.pushState(null, "", url);
  for (const setup of setups) setup(document);

  const invalid = document.querySelector<HTMLElement>("[aria-invalid='true']");
  if (invalid) {
    invalid.focus();
  } else if (isSamePage) {
    window.scrollTo(0, scrolled);
    const again = focused ? document.getElementById(focused) : null;
    (again ?? document.getElementById("main"))?.focus({ preventScroll: true });
  } else {
    window.scrollTo(0, 0);
    document.getElementById("main")?.focus({ preventScroll: true });
  }
}

/** Pages that `show` put into the history are loaded when a person goes back to them. */
window.addEventListener("popstate", () => {
  location.reload();
});
