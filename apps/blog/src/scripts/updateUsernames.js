// Rewrites userUsername on every item that one user has in this logical partition: posts, comments and likes alike.
// Items that carry the new name already are left alone, so the procedure may be run again at any time.
// Answers {updated, done}; where the time budget ends first, done is false and the caller runs it again.
function updateUsernames(userId, username) {
  var collection = getContext().getCollection();
  var updated = 0;
  var stale = {
    query: 'SELECT * FROM c WHERE c.userId = @userId AND (NOT IS_DEFINED(c.userUsername) OR c.userUsername != @username)',
    parameters: [{ name: '@userId', value: userId }, { name: '@username', value: username }]
  };

  function finish(done) {
    getContext().getResponse().setBody({ updated: updated, done: done });
  }

  function nextPage() {
    var accepted = collection.queryDocuments(collection.getSelfLink(), stale, { pageSize: 100 }, function (err, items) {
      if (err) throw err;
      if (items.length === 0) return finish(true);
      rewrite(items, 0);
    });
    if (!accepted) finish(false);
  }

  function rewrite(items, index) {
    if (index === items.length) return nextPage();
    var item = items[index];
    item.userUsername = username;
    var accepted = collection.replaceDocument(item._self, item, { etag: item._etag }, function (err) {
      if (err) throw err;
      updated++;
      rewrite(items, index + 1);
    });
    if (!accepted) finish(false);
  }

  nextPage();
}
